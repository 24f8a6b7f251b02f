-- retry_head: the job that a lane waits for is tried at once. In a retrying lane, it does not
-- wait until it is due. In a halted lane, the failed job is tried again, first. Returns its id,
-- or NULL if the lane waits for no job.
CREATE OR REPLACE FUNCTION retry_head(p_lock text, p_by text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lane lanes := lock_lane(p_lock);
    v_id   bigint := coalesce(v_lane.failed_job_id, v_lane.job_id);
BEGIN
    IF v_lane.failed_job_id IS NOT NULL THEN
        PERFORM restore_job(v_id);
        v_id := (SELECT id FROM jobs WHERE id = v_id);   -- NULL if it was deleted: stay halted
    ELSE
        UPDATE jobs SET status = 'todo', scheduled_at = clock()
        WHERE id = v_id AND status = 'scheduled';
    END IF;
    IF v_id IS NULL THEN
        PERFORM reopen_lane(p_lock);
    ELSE
        PERFORM clear_stop(p_lock, v_id);
        PERFORM audit('retry-head', p_lock, 1, p_by, 'job ' || v_id);
    END IF;
    RETURN v_id;
END $$;
