-- cancel_waiting: cancels every job that waits in a lane. The running job continues. Scheduled jobs
-- stay too, because they are not in the lane yet. Returns the number of cancelled jobs. Jobs whose
-- other lane is locked by another session are left, and the audit tells how many.
CREATE OR REPLACE FUNCTION cancel_waiting(p_lock text, p_by text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_lane  lanes := lock_lane(p_lock);
    v_ids   bigint[];
    v_count bigint;
    v_more  record;
BEGIN
    v_ids := ARRAY(
        SELECT id FROM jobs WHERE id = v_lane.job_id AND locks IS NULL
        UNION ALL
        SELECT id FROM jobs WHERE lock = p_lock
            AND status IN ('todo', 'blocked', 'limited', 'paused')
            AND lock IS NOT NULL AND keeps_lanes IS NULL AND locks IS NULL
            AND id IS DISTINCT FROM v_lane.job_id
    );
    SELECT count(*) INTO v_count FROM archive_jobs(v_ids);
    SELECT * INTO v_more FROM cancel_in_lanes(p_lock);
    UPDATE lanes SET job_id = NULL WHERE lock = p_lock AND job_id IN (SELECT unnest(v_ids));
    PERFORM reopen_lane(p_lock);
    PERFORM audit('cancel-waiting', p_lock, v_count + v_more.cancelled, p_by,
        CASE WHEN v_more.rest > 0 THEN v_more.rest || ' jobs with other lanes are left' END);
    RETURN v_count + v_more.cancelled;
END $$;
