-- Returns the version for an updated row of a gate or a lane. It rises only now and then (see
-- gates), but always at the first update: a new row begins at 0, and dead rows of its name may have
-- higher versions. If a look at a gate is planned, raising it also adds an entry to gates_look,
-- which claims read once the look is due, so that happens less often. The planner inlines it.
CREATE OR REPLACE FUNCTION next_version(p_version bigint, p_look_at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN p_version = 0
                    OR random() < CASE WHEN p_look_at IS NULL THEN 0.01 ELSE 0.001 END
                THEN nextval('fences') ELSE p_version END
$$;
