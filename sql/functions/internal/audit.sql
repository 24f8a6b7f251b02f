-- Records a change of a lane: when it was made, who made it (by default the database user), and
-- how many jobs it changed.
CREATE OR REPLACE FUNCTION audit(p_operation text, p_lock text, p_jobs bigint, p_by text,
    p_reason text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO lane_audit (at, who, operation, lock, jobs, reason)
    VALUES (clock(), coalesce(p_by, session_user), p_operation, p_lock, p_jobs, p_reason)
$$;
