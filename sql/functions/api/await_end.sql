-- Returns the status of a job, and requests a notification of its end if it has not ended yet (see
-- notify_ended). No row means that there is no such job.
--
-- The job is marked first and looked at afterwards, in a new statement, so a finish before the mark
-- is seen here, and a finish after it sees the mark.
CREATE OR REPLACE FUNCTION await_end(p_id bigint)
    RETURNS TABLE (status job_status, result jsonb, error text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_settings();
    UPDATE jobs SET has_waiters = true WHERE id = p_id AND NOT has_waiters;
    -- One statement for both tables: a job that is being restored is in exactly one of them.
    RETURN QUERY
    SELECT jobs.status, NULL::jsonb, NULL FROM jobs WHERE id = p_id
    UNION ALL
    (SELECT f.status, f.result, f.errors -> -1 ->> 'error' FROM finished_jobs AS f
     WHERE id = p_id ORDER BY f.finished_at DESC LIMIT 1)
    LIMIT 1;
END $$;
