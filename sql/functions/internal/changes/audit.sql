-- Records a change: when, by whom (by default the database user), of what, and how many jobs it
-- changed. A name must be one line, so that it cannot fake another row in a list.
CREATE OR REPLACE FUNCTION audit(p_operation text, p_lock text, p_jobs bigint, p_by text,
    p_reason text, p_job bigint DEFAULT NULL, p_batch bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF length(p_by) > 200 OR p_by ~ '[\x01-\x1f\x7f]' THEN
        RAISE EXCEPTION 'by: give a name of at most 200 characters, on one line'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO lane_audit (at, who, operation, lock, jobs, reason, job_id, batch_id)
    VALUES (clock(), coalesce(p_by, session_user), p_operation, p_lock, p_jobs, p_reason, p_job,
        p_batch);
END $$;
