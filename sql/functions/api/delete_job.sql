-- delete_job: removes a job, live or finished, unless it is running. Returns false if it is running
-- or does not exist.
CREATE OR REPLACE FUNCTION delete_job(p_id bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_count bigint;
BEGIN
    PERFORM cancel_job(p_id);
    WITH gone AS (
        DELETE FROM finished_jobs AS job WHERE job.id = p_id
        RETURNING keep_uncounted(job, job.tableoid, job.xmin, job.ctid)
    )
    SELECT count(*) INTO v_count FROM gone;
    IF v_count = 0 THEN
        RETURN false;
    END IF;
    DELETE FROM progress WHERE job_id = p_id;
    RETURN true;
END $$;
