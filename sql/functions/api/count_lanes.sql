-- Returns how many lanes list_lanes would return without a limit. Counting stops at p_limit.
-- Bounded (see lanes_to_list).
CREATE OR REPLACE FUNCTION count_lanes(p_limit integer, p_states text[] DEFAULT NULL)
RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM (
        SELECT FROM lanes_to_list(p_limit, p_states) LIMIT p_limit) AS counted
$$;
