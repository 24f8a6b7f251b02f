-- Returns how many lanes list_lanes would return without a limit. Counting stops at p_limit.
CREATE OR REPLACE FUNCTION count_lanes(p_limit integer) RETURNS bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT count(*) FROM (SELECT FROM lanes LIMIT p_limit) AS counted
$$;
