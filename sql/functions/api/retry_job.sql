-- Runs a finished job again under its id, at its old place in its lane. A scheduled job becomes due
-- now, and a pending job stops waiting for others. Returns false if there is nothing to do: the job
-- waits, runs, or does not exist. With p_by, lane_audit records who did it. Otherwise it records
-- only that a halted lane continues.
CREATE OR REPLACE FUNCTION retry_job(p_id bigint, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_lock  text := (
        SELECT min(lock) FROM lanes WHERE stopped = 'halted' AND failed_job_id = p_id);
    v_locks text[];
BEGIN
    IF v_lock IS NOT NULL THEN
        v_locks := coalesce((next_job(v_lock)).locks, ARRAY[v_lock]);
        PERFORM lock_lane(lane) FROM unnest(v_locks) AS lane;   -- in order
        v_lock := (SELECT min(lock) FROM lanes WHERE lock = ANY (v_locks) AND failed_job_id = p_id);
        IF v_lock IS NOT NULL THEN   -- the lane is still halted for this job
            RETURN retry_head(v_lock, p_by) IS NOT NULL;
        END IF;
        PERFORM reopen_lane(lane) FROM unnest(v_locks) AS lane;
    END IF;
    IF NOT retry_at_its_place(p_id) THEN
        RETURN false;
    END IF;
    IF p_by IS NOT NULL THEN
        PERFORM audit('retry-job', (SELECT lock FROM jobs WHERE id = p_id), 1, p_by, NULL, p_id);
    END IF;
    RETURN true;
END $$;
