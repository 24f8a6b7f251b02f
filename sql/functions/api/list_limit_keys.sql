-- Returns keys that have a limit, after p_after in the order of their names, at most p_limit: the
-- limit that applies to each, how many jobs of the key run, and how many wait for it, up to 1,001.
-- A key without jobs is forgotten sooner or later. Bounded: it looks at p_limit keys, and at 1,001
-- waiting jobs of each.
CREATE OR REPLACE FUNCTION list_limit_keys(p_after text, p_limit integer) RETURNS TABLE (
    key text, pattern text, slots integer, running integer, limited bigint
)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT keys.key, rule.pattern, rule.slots, keys.used, line.jobs
    FROM (
        SELECT limit_keys.key, used FROM limit_keys
        WHERE limit_keys.key > p_after ORDER BY limit_keys.key LIMIT p_limit
    ) AS keys
    LEFT JOIN LATERAL find_limit(keys.key) AS rule ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM jobs WHERE status = 'limited' AND limit_key = keys.key LIMIT 1001
        ) AS job
    ) AS line
    ORDER BY keys.key
$$;
