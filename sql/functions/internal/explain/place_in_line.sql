-- Returns in words how many jobs of its lane go before a job, at most 10,000, and about how long
-- they take at the lane's pace of the last ten minutes, if it is known. Empty if none goes first.
CREATE OR REPLACE FUNCTION place_in_line(p_job jobs, p_lock text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ahead   integer;
    v_minutes numeric;   -- NULL: unknown
BEGIN
    IF p_job.status NOT IN ('todo', 'blocked', 'limited', 'paused') OR p_job.keeps_lanes THEN
        RETURN '';
    END IF;
    SELECT count(*) INTO v_ahead FROM (
        SELECT FROM line_of(p_lock, 10000)
        WHERE (priority, p_job.id) > (p_job.priority, id) LIMIT 10000) AS ahead;
    IF v_ahead = 0 THEN
        RETURN '';
    END IF;
    SELECT ceil((v_ahead + 1) / per_minute)::numeric INTO v_minutes
    FROM measure_paces(ARRAY[p_lock]) WHERE per_minute > 0;
    RETURN '; ' || CASE WHEN v_ahead >= 10000 THEN 'at least ' ELSE '' END
        || to_char(v_ahead, 'FM999,999')
        || CASE v_ahead WHEN 1 THEN ' other job' ELSE ' other jobs' END || ' of the lane '
        || CASE v_ahead WHEN 1 THEN 'goes' ELSE 'go' END || ' first'
        || coalesce(', about ' || CASE
            WHEN v_minutes < 120 THEN v_minutes || ' min'
            WHEN v_minutes < 2880 THEN round(v_minutes / 60) || ' h'
            ELSE round(v_minutes / 1440) || ' days' END || ' at its present pace', '');
END $$;
