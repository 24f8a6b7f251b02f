-- Returns what people, and the reconciler, did to a lane, the newest first, at most p_limit.
CREATE OR REPLACE FUNCTION list_audit(p_lock text, p_limit integer) RETURNS SETOF lane_audit
LANGUAGE sql STABLE AS $$
    SELECT * FROM lane_audit WHERE lock = p_lock ORDER BY id DESC LIMIT p_limit
$$;
