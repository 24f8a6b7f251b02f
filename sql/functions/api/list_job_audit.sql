-- Returns what people did to a single job, the newest first, at most p_limit. Bulk changes are left
-- out.
CREATE OR REPLACE FUNCTION list_job_audit(p_id bigint, p_limit integer) RETURNS SETOF lane_audit
LANGUAGE sql STABLE AS $$
    SELECT * FROM lane_audit WHERE job_id = p_id ORDER BY id DESC LIMIT p_limit
$$;
