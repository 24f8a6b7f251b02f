-- delete_job: removes a job, live or finished, unless it is running. Returns false if it is running
-- or does not exist.
CREATE OR REPLACE FUNCTION delete_job(p_id bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM cancel_job(p_id);
    DELETE FROM finished_jobs WHERE id = p_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM progress WHERE job_id = p_id;
    RETURN true;
END $$;
