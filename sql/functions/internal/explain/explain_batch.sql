-- Returns what the callback of a batch waits for: the batch to be closed, and its jobs, at most ten
-- of them.
CREATE OR REPLACE FUNCTION explain_batch(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    WITH batch AS (
        SELECT id, 'batch ' || id || ' (' || name || ')' AS name, state, remaining
        FROM batch_status WHERE id = p_job.batch_id AND callback_id = p_job.id AND state <> 'ended'
    )
    SELECT 'batch open', batch.name || ' is open, so more jobs can join it',
        'queue batches close ' || batch.id
    FROM batch WHERE state = 'open'
    UNION ALL
    SELECT 'batch', batch.name || ' waits for job ' || job.id || ' (' || job.task || '), which is '
        || job.status, 'queue jobs explain ' || job.id
    FROM batch CROSS JOIN LATERAL (
        SELECT live_jobs.id, live_jobs.task, live_jobs.status FROM live_jobs
        WHERE live_jobs.id = ANY (ARRAY(
            SELECT jobs.id FROM jobs
            WHERE jobs.batch_id = batch.id AND jobs.batch_id IS NOT NULL AND jobs.id <> p_job.id
            ORDER BY jobs.id LIMIT 10))
        ORDER BY live_jobs.id
    ) AS job
    UNION ALL
    SELECT 'batch', batch.name || ' waits for ' || remaining || ' jobs in total',
        'queue batches show ' || batch.id
    FROM batch WHERE remaining > 10
    UNION ALL
    SELECT 'batch', batch.name || ' ends at the next claim, unless an open transaction adds jobs',
        NULL
    FROM batch WHERE remaining <= 0 AND state = 'closed'
$$;
