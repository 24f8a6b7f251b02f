-- skip_head: cancels the next job of a lane, so that the one behind it goes next. In a halted
-- lane, the failed job is left behind and the lane goes on. Returns the id of the skipped job, or
-- NULL if nothing waits.
CREATE OR REPLACE FUNCTION skip_head(p_lock text, p_by text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lane lanes := lock_lane(p_lock);
    v_id   bigint;
BEGIN
    IF v_lane.worker_id IS NOT NULL THEN
        RAISE EXCEPTION 'the head of lane % is running', p_lock
            USING ERRCODE = 'object_in_use', HINT = 'Abort the job, or wait until it ends.';
    ELSIF v_lane.stopped = 'halted' THEN
        v_id := v_lane.failed_job_id;
        PERFORM clear_stop(p_lock);
    ELSE
        v_id := coalesce(v_lane.job_id, (SELECT id FROM lane_heads(ARRAY[p_lock])));
        PERFORM archive_jobs(ARRAY[v_id], NULL, ARRAY['cancelled'::job_status], NULL);
        UPDATE lanes SET job_id = NULL WHERE lock = p_lock;
        PERFORM reopen_lane(p_lock);
    END IF;
    PERFORM audit('skip-head', p_lock, 1, p_by, 'job ' || v_id) WHERE v_id IS NOT NULL;
    RETURN v_id;
END $$;
