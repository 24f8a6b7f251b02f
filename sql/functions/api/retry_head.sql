-- retry_head: retries the job that a lane waits for at once. In a retrying lane, it no longer waits
-- until it is due, and a pause stays. In a halted lane, the failed job runs again, first. Returns
-- its id, or NULL if the lane waits for no job.
--
-- A job that has several lanes goes first in all of them, if it has halted all of them. Otherwise
-- it waits in line.
CREATE OR REPLACE FUNCTION retry_head(p_lock text, p_by text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_next record;
    v_id   bigint;
    v_live jobs;
BEGIN
    SELECT * INTO v_next FROM lock_next_job(p_lock);
    v_id := coalesce((v_next.lane).failed_job_id, (v_next.lane).job_id);
    IF (v_next.lane).failed_job_id IS NOT NULL THEN
        PERFORM restore_job(v_id);
    ELSE
        UPDATE jobs SET status = 'todo', scheduled_at = clock(), abort = false
        WHERE id = v_id AND status = 'scheduled';
    END IF;
    SELECT * INTO v_live FROM jobs WHERE id = v_id;   -- none if it was deleted: stay halted
    IF v_live.id IS NULL AND (v_id IS NULL OR (v_next.lane).failed_job_id IS NOT NULL) THEN
        v_id := NULL;
        PERFORM reopen_lane(p_lock);
    ELSIF v_live.locks IS NOT NULL AND (v_next.lane).failed_job_id IS NOT NULL THEN
        PERFORM bring_back(p_lock, v_next.job);
    ELSIF (v_next.lane).stopped IS DISTINCT FROM 'paused' THEN
        PERFORM clear_stop(p_lock, v_id);
    END IF;
    PERFORM reopen_lane(lane) FROM unnest((v_next.job).locks) AS lane WHERE lane <> p_lock;
    PERFORM audit('retry-head', p_lock, 1, p_by, NULL, v_id) WHERE v_id IS NOT NULL;
    RETURN v_id;
END $$;
