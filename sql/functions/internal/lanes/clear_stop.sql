-- Lets a stopped lane run again: the only function that does. The caller has locked the lane.
CREATE OR REPLACE FUNCTION clear_stop(
    p_lock text,
    p_next bigint DEFAULT NULL   -- a job that goes first
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lanes
    SET stopped = NULL, stopped_at = NULL, stopped_until = NULL, stopped_by = NULL,
        stop_reason = NULL,
        failed_job_id = NULL, job_id = coalesce(p_next, job_id)
    WHERE lock = p_lock;
    PERFORM reopen_lane(p_lock);
END $$;
