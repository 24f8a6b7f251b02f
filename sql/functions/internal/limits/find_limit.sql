-- Returns the limit of a key, if any: the one for exactly this key, else the one with the longest
-- matching pattern. It looks up one prefix of the key for each length that patterns have, so its
-- cost grows neither with the number of limits nor with the length of the key.
--
-- In a FROM clause, it is inlined (SETOF), so many keys cost one statement, which walks from length
-- to length once.
CREATE OR REPLACE FUNCTION find_limit(p_key text) RETURNS SETOF limits
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT * FROM limits
    WHERE pattern = ANY (p_key || ARRAY(
        SELECT left(p_key, size - 1) || '*' FROM unnest((
            WITH RECURSIVE found AS (
                (SELECT length(pattern) AS size FROM limits
                 WHERE right(pattern, 1) = '*' ORDER BY length(pattern) LIMIT 1)
                UNION ALL
                SELECT next.size FROM found CROSS JOIN LATERAL (
                    SELECT length(pattern) AS size FROM limits
                    WHERE right(pattern, 1) = '*' AND length(pattern) > found.size
                    ORDER BY length(pattern) LIMIT 1
                ) AS next
            )
            SELECT array_agg(size) FROM found
        )) AS size))
    ORDER BY pattern = p_key DESC, length(pattern) DESC
    LIMIT 1
$$;
