-- Returns the limit of a key: the one of just this key, else the one with the longest pattern that
-- the key fits. All columns are NULL if there is none.
CREATE OR REPLACE FUNCTION find_limit(p_key text) RETURNS limits
LANGUAGE sql STABLE AS $$
    SELECT limits FROM limits
    WHERE pattern = p_key OR (right(pattern, 1) = '*' AND starts_with(p_key, left(pattern, -1)))
    ORDER BY pattern = p_key DESC, length(pattern) DESC
    LIMIT 1
$$;
