-- Returns the limit of a key, if it has one: that of just this key, else the one with the longest
-- pattern that the key fits. It looks up each beginning of the key, so its cost does not grow with
-- the number of limits.
--
-- In a FROM clause, it becomes part of the statement (SETOF). So many keys cost one statement.
CREATE OR REPLACE FUNCTION find_limit(p_key text) RETURNS SETOF limits
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT * FROM limits
    WHERE pattern = ANY (p_key || ARRAY(
        SELECT left(p_key, generate_series(0, length(p_key))) || '*'))
    ORDER BY pattern = p_key DESC, length(pattern) DESC
    LIMIT 1
$$;
