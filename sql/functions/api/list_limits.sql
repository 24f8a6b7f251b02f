-- Returns the limits, by pattern, at most p_limit: how many jobs of their keys run, and how many
-- wait for a slot or a token. Bounded: it looks at 10,000 keys and 10,000 waiting jobs. A key
-- counts for the limit that applies to it.
CREATE OR REPLACE FUNCTION list_limits(p_limit integer) RETURNS TABLE (
    pattern text, slots integer, rate integer, period interval, burst integer,
    running bigint, limited bigint
)
LANGUAGE sql STABLE AS $$
    WITH known AS MATERIALIZED (
        SELECT rule.pattern, used, 0 AS waiting FROM (
            SELECT key, used FROM gates WHERE key < 'task:'
            ORDER BY key LIMIT 10000) AS own
        CROSS JOIN LATERAL gate_rule(key) AS rule
        UNION ALL
        SELECT rule.pattern, 0, count FROM (
            SELECT gate, count(*) FROM (
                SELECT gate FROM gated_jobs WHERE gate < 'task:'
                ORDER BY gate LIMIT 10000
            ) AS job GROUP BY gate) AS waiting
        CROSS JOIN LATERAL gate_rule(gate) AS rule
    )
    SELECT limits.pattern, limits.slots, limits.rate, limits.period, limits.burst,
           coalesce(sum(known.used), 0)::bigint, coalesce(sum(known.waiting), 0)::bigint
    FROM limits LEFT JOIN known ON known.pattern = limits.pattern
    GROUP BY limits.pattern ORDER BY limits.pattern LIMIT p_limit
$$;
