-- delete_job: deletes a job, live or finished, unless it is running. Returns false if it is running
-- or does not exist. With p_by, lane_audit records who did it.
CREATE OR REPLACE FUNCTION delete_job(p_id bigint, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
    v_lock  text;
BEGIN
    PERFORM cancel_job(p_id);
    WITH gone AS (
        DELETE FROM finished_jobs AS job WHERE job.id = p_id
        RETURNING job.lock, keep_uncounted(job, job.tableoid, job.xmin, job.ctid)
    )
    SELECT count(*), min(lock) INTO v_count, v_lock FROM gone;
    IF v_count = 0 THEN
        RETURN false;
    END IF;
    DELETE FROM progress WHERE job_id = p_id;
    IF p_by IS NOT NULL THEN
        PERFORM audit('delete-job', v_lock, 1, p_by, NULL, p_id);
    END IF;
    RETURN true;
END $$;
