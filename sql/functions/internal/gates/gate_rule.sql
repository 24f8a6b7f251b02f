-- Returns the limit that a gate enforces, if any. A paused task is a limit of no slots. Inlined in
-- a FROM clause, like find_limit.
CREATE OR REPLACE FUNCTION gate_rule(p_gate text) RETURNS SETOF limits
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT * FROM find_limit(gate_name(p_gate)) WHERE p_gate < 'task:'
    UNION ALL
    SELECT p_gate, 0, NULL, NULL, NULL FROM paused_tasks
    WHERE task = gate_name(p_gate) AND p_gate >= 'task:'
$$;
