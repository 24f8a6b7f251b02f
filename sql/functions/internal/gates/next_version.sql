-- Returns the version of a gate's row after a change: a higher one now and then (see the table). A
-- row with a planned look writes an entry in gates_look with it, which claims would meet once it is
-- due, so it gets one more seldom. The planner inlines it.
CREATE OR REPLACE FUNCTION next_version(p_version bigint, p_look_at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN random() < CASE WHEN p_look_at IS NULL THEN 0.01 ELSE 0.001 END
                THEN nextval('fences') ELSE p_version END
$$;
