-- cancel_waiting: cancels every job that waits in a lane. The running job goes on. Scheduled jobs
-- stay too: they are not in the lane yet. Returns the number of cancelled jobs.
CREATE OR REPLACE FUNCTION cancel_waiting(p_lock text, p_by text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lane  lanes := lock_lane(p_lock);
    v_ids   bigint[];
    v_count bigint;
BEGIN
    v_ids := v_lane.job_id || ARRAY(
        SELECT id FROM jobs WHERE lock = p_lock AND status IN ('todo', 'blocked', 'limited')
            AND id IS DISTINCT FROM v_lane.job_id
    );
    SELECT count(*) INTO v_count
    FROM archive_jobs(v_ids, NULL, array_fill('cancelled'::job_status, ARRAY[cardinality(v_ids)]),
        NULL);
    UPDATE lanes SET job_id = NULL WHERE lock = p_lock;
    PERFORM reopen_lane(p_lock);
    PERFORM audit('cancel-waiting', p_lock, v_count, p_by, NULL);
    RETURN v_count;
END $$;
