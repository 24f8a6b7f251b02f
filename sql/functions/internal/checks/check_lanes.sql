-- Raises an error unless these are valid lanes for the jobs of a call (see defer_jobs).
CREATE OR REPLACE FUNCTION check_lanes(
    p_lanes text[], p_lanes_of integer[], p_lanes_shared boolean[], p_jobs integer
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_problem text := CASE
        WHEN cardinality(p_lanes) <> cardinality(p_lanes_of)
            OR cardinality(p_lanes_shared) <> cardinality(p_lanes)
            OR EXISTS (SELECT FROM unnest(p_lanes_of) AS place
                       WHERE (place BETWEEN 1 AND p_jobs) IS NOT TRUE)
            THEN 'for each lock, say to which job of the call it belongs, and if the job shares it'
        WHEN EXISTS (SELECT FROM unnest(p_lanes) AS lane
                     WHERE (octet_length(lane) BETWEEN 1 AND 1024) IS NOT TRUE)
            THEN 'give 1 to 1,024 bytes for each'
        WHEN EXISTS (SELECT FROM unnest(p_lanes, p_lanes_of) AS given(lane, place)
                     GROUP BY lane, place HAVING count(*) > 1)
            THEN 'a lock is given twice'
        WHEN (SELECT max(count) FROM (SELECT count(*) FROM unnest(p_lanes_of) AS place
                                      GROUP BY place) AS each) > 8
            THEN 'a job has at most 8 locks'
        END;
BEGIN
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'locks: %', v_problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
