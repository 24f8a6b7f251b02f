-- Returns what a gate guards: the key of the limit, or the task.
CREATE OR REPLACE FUNCTION gate_name(p_gate text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(p_gate, strpos(p_gate, ':') + 1)
$$;
