-- Returns how many jobs wait in a lane, at most 1,001, and which goes next, since when.
-- One row. The job is NULL if none waits.
CREATE OR REPLACE FUNCTION measure_line(p_lock text)
RETURNS TABLE (waiting bigint, job_id bigint, since timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT (SELECT count(*) FROM (SELECT FROM line_of(p_lock, 1001) LIMIT 1001) AS line), head.id,
        coalesce(head.scheduled_at, head.created_at)
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (
        SELECT jobs.id, jobs.scheduled_at, jobs.created_at FROM jobs
        WHERE jobs.id = (SELECT list_line(p_lock, 1)) LIMIT 1) AS head ON true
$$;
