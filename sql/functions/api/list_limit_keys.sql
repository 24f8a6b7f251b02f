-- Returns keys that have a limit, after p_after in the order of their names, at most p_limit: the
-- limit that applies to each, how many jobs of the key run, and how many wait for it, up to 1,001.
-- A key without jobs is forgotten sooner or later. Bounded: it looks at p_limit keys, and at 1,001
-- waiting jobs of each.
CREATE OR REPLACE FUNCTION list_limit_keys(p_after text, p_limit integer) RETURNS TABLE (
    key text, pattern text, slots integer, running integer, limited bigint
)
LANGUAGE sql STABLE AS $$
    SELECT gate_name(own.gate), rule.pattern, rule.slots, own.used, line.jobs
    FROM (
        SELECT gates.key AS gate, used FROM gates
        WHERE gates.key > limit_gate(p_after) AND gates.key < 'task:'
        ORDER BY gates.key LIMIT p_limit
    ) AS own
    LEFT JOIN LATERAL gate_rule(own.gate) AS rule ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs
        FROM (SELECT FROM gated_jobs WHERE gated_jobs.gate = own.gate LIMIT 1001) AS job
    ) AS line
    ORDER BY own.gate
$$;
