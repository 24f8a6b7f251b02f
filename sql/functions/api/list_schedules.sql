-- Returns the schedules that workers have registered, sorted by task, at most p_limit.
CREATE OR REPLACE FUNCTION list_schedules(p_limit integer) RETURNS SETOF schedules
LANGUAGE sql STABLE AS $$
    SELECT * FROM schedules ORDER BY task, periodic_id LIMIT p_limit
$$;
