-- Records a change: when it was made, who made it (by default the database user), of what, and how
-- many jobs it changed.
CREATE OR REPLACE FUNCTION audit(p_operation text, p_lock text, p_jobs bigint, p_by text,
    p_reason text, p_job bigint DEFAULT NULL, p_batch bigint DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO lane_audit (at, who, operation, lock, jobs, reason, job_id, batch_id)
    VALUES (clock(), coalesce(p_by, session_user), p_operation, p_lock, p_jobs, p_reason, p_job,
        p_batch)
$$;
