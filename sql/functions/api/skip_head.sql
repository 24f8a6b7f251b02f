-- skip_head: cancels the next job of a lane, so that the one behind it goes next. In a halted lane,
-- the failed job is left behind and the lane continues. Returns the id of the skipped job, or NULL
-- if nothing waits.
CREATE OR REPLACE FUNCTION skip_head(p_lock text, p_by text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_next record;
    v_id   bigint;
    v_kept boolean;
BEGIN
    SELECT * INTO v_next FROM lock_next_job(p_lock);
    v_id := (v_next.job).id;
    IF (v_next.lane).worker_id IS NOT NULL THEN
        RAISE EXCEPTION 'the head of lane % is running', p_lock
            USING ERRCODE = 'object_in_use', HINT = 'Abort the job, or wait until it ends.';
    ELSIF (v_next.lane).stopped = 'halted' THEN
        v_id := (v_next.lane).failed_job_id;
        PERFORM clear_stop(p_lock);
    ELSE
        SELECT keeps_lanes INTO v_kept FROM jobs WHERE id = v_id;
        PERFORM archive_jobs(ARRAY[v_id]);
        PERFORM reopen_lane(p_lock) WHERE v_id IS NULL;
    END IF;
    PERFORM reopen_lanes(v_next.job, v_kept);
    PERFORM audit('skip-head', p_lock, 1, p_by, NULL, v_id) WHERE v_id IS NOT NULL;
    RETURN v_id;
END $$;
