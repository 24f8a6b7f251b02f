-- Returns the rows of lane_status in the same order, at most p_limit, and only lanes in p_states
-- unless that is NULL. The lanes are chosen before their jobs are read.
CREATE OR REPLACE FUNCTION list_lanes(p_limit integer, p_states text[] DEFAULT NULL)
RETURNS TABLE (
    lock text, state lane_state, since timestamptz, job_id bigint, job_status job_status, task text,
    attempts integer, due_at timestamptz, worker text, heartbeat_at timestamptz, waiting bigint,
    more boolean, last_error text, stopped lane_state, stopped_at timestamptz,
    stopped_until timestamptz, stopped_by text, stop_reason text, failed_job_id bigint,
    failed_task text, readers integer
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT lock, state, since, job_id, job_status, task, attempts, due_at, worker, heartbeat_at,
           waiting, more, last_error, stopped, stopped_at, stopped_until, stopped_by, stop_reason,
           failed_job_id, failed_task, readers
    FROM lane_status
    WHERE lock = ANY (ARRAY(
        SELECT lanes.lock FROM lanes
        WHERE p_states IS NULL OR lanes.state = ANY (p_states::lane_state[])
        ORDER BY lanes.stopped IS NULL, lanes.stopped = 'paused', lanes.since LIMIT p_limit
    ))
    ORDER BY stopped IS NULL, stopped = 'paused', since;
END $$;
