-- Returns the rows of lane_status in the same order: of p_locks or, if that is NULL, at most
-- p_limit, and only lanes in p_states unless that is NULL. The lanes are chosen before their jobs
-- are read.
--
-- Bounded (see lanes_to_list).
CREATE OR REPLACE FUNCTION list_lanes(
    p_limit integer, p_states text[] DEFAULT NULL, p_locks text[] DEFAULT NULL
) RETURNS TABLE (
    lock text, state lane_state, since timestamptz, job_id bigint, job_status job_status, task text,
    attempts integer, due_at timestamptz, worker text, heartbeat_at timestamptz, waiting bigint,
    more boolean, last_error text, stopped lane_state, stopped_at timestamptz,
    stopped_until timestamptz, stopped_by text, stop_reason text, failed_job_id bigint,
    failed_task text, readers integer, waits_for text
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT * FROM lane_status
    WHERE lock = ANY (coalesce(p_locks, ARRAY(
        SELECT found.lock FROM lanes_to_list(p_limit, p_states) AS found
        ORDER BY found.stopped IS NULL, found.stopped = 'paused', found.since LIMIT p_limit
    )))
    ORDER BY stopped IS NULL, stopped = 'paused', since;
END $$;
