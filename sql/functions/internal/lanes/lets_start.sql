-- Returns whether a lane's row lets a job start: the lane is free, or it is not stopped, and waits
-- for the job or can be shared with its readers.
CREATE OR REPLACE FUNCTION lets_start(p_lane lanes, p_id bigint, p_shared text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_lane.state IS NULL OR p_lane.stopped IS NULL AND (
        coalesce(p_lane.job_id = p_id, false)
        OR (p_lane.readers IS NOT NULL AND coalesce(p_lane.lock = ANY (p_shared), false)))
$$;
