-- Returns the limit of a key, if any: the one for exactly this key, else the one with the longest
-- matching pattern. It looks up each prefix of the key, so its cost does not grow with the number
-- of limits.
--
-- In a FROM clause, it is inlined (SETOF), so many keys cost one statement.
CREATE OR REPLACE FUNCTION find_limit(p_key text) RETURNS SETOF limits
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT * FROM limits
    WHERE pattern = ANY (p_key || ARRAY(
        SELECT left(p_key, generate_series(0, length(p_key))) || '*'))
    ORDER BY pattern = p_key DESC, length(pattern) DESC
    LIMIT 1
$$;
