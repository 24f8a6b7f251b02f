-- Who waits for the end of a job asks how it ended: while it lives, its end will be told (notify_ended). It is marked first and
-- looked at afterwards, in a new statement: a finish that was before the mark is seen, one that comes after sees the mark. No row:
-- there is no such job.
CREATE OR REPLACE FUNCTION await_end(p_id bigint) RETURNS TABLE (status job_status, result jsonb, error text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM require_read_committed();
    UPDATE jobs SET has_waiters = true WHERE id = p_id AND NOT has_waiters;
    -- One statement for both tables: a job that is just brought back to life is in one of them.
    RETURN QUERY
    SELECT jobs.status, NULL::jsonb, NULL FROM jobs WHERE id = p_id
    UNION ALL
    (SELECT f.status, f.result, f.errors -> -1 ->> 'error' FROM finished_jobs AS f
     WHERE id = p_id ORDER BY f.finished_at DESC LIMIT 1)
    LIMIT 1;
END $$;
