-- Returns how many lanes list_lanes would return without a limit. Counting stops at p_limit.
CREATE OR REPLACE FUNCTION count_lanes(p_limit integer, p_states text[] DEFAULT NULL)
RETURNS bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT count(*) FROM (
        SELECT FROM lanes
        WHERE p_states IS NULL OR lanes.state = ANY (p_states::lane_state[])
        UNION ALL
        SELECT FROM idle_lanes WHERE p_states IS NULL OR 'idle' = ANY (p_states)
        LIMIT p_limit
    ) AS counted
$$;
