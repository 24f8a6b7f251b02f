-- Returns when the limit of a key was last set or removed, or one of its patterns, if ever.
CREATE OR REPLACE FUNCTION limit_changed_at(p_key text) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT max(at) FROM lane_audit
    WHERE operation IN ('set-limit', 'remove-limit')
        AND lock = ANY (p_key || ARRAY(
            SELECT left(p_key, generate_series(0, length(p_key))) || '*'))
$$;
