-- Returns the rows of lane_status, stopped lanes first, at most p_limit. The lanes are chosen
-- before their jobs are read.
CREATE OR REPLACE FUNCTION list_lanes(p_limit integer) RETURNS TABLE (
    lock text, state lane_state, since timestamptz, job_id bigint, task text, attempts integer,
    due_at timestamptz, worker text, heartbeat_at timestamptz, waiting bigint, last_error text,
    stopped lane_state, stopped_at timestamptz, stopped_until timestamptz, stopped_by text,
    stop_reason text
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT lock, state, since, job_id, task, attempts, due_at, worker, heartbeat_at, waiting,
           last_error, stopped, stopped_at, stopped_until, stopped_by, stop_reason
    FROM lane_status
    WHERE lock = ANY (ARRAY(
        SELECT lanes.lock FROM lanes ORDER BY lanes.stopped IS NULL, lanes.since LIMIT p_limit
    ))
    ORDER BY stopped IS NULL, since;
END $$;
