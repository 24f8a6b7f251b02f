-- Returns the limit of a key: the one of just this key, else the one with the longest pattern that
-- the key fits. All columns are NULL if there is none. It looks up each beginning of the key, so
-- its cost does not grow with the number of limits.
CREATE OR REPLACE FUNCTION find_limit(p_key text) RETURNS limits
LANGUAGE sql STABLE AS $$
    SELECT limits FROM limits
    WHERE pattern = ANY (p_key || ARRAY(
        SELECT left(p_key, n) || '*' FROM generate_series(0, length(p_key)) AS n))
    ORDER BY pattern = p_key DESC, length(pattern) DESC
    LIMIT 1
$$;
