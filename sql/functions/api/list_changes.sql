-- Returns what people, and the reconciler, did, the newest first: at most p_limit of those with
-- lower ids than p_before.
CREATE OR REPLACE FUNCTION list_changes(p_before bigint, p_limit integer) RETURNS SETOF lane_audit
LANGUAGE sql STABLE AS $$
    SELECT * FROM lane_audit WHERE id < p_before ORDER BY id DESC LIMIT p_limit
$$;
