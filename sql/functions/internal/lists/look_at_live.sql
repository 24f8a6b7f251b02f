-- Returns these live jobs with the statuses that people see. What the workers have in hand is read
-- once, not once per job.
CREATE OR REPLACE FUNCTION look_at_live(p_ids bigint[])
RETURNS TABLE (queue text, task text, locks text[], status job_status)
LANGUAGE plpgsql STABLE
SET enable_nestloop = off  -- wrong statistics would compare each job with each one in hand
SET enable_seqscan = off  -- do not read more jobs only because more of them wait
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH looked AS MATERIALIZED (
        SELECT job.id, job.queue, job.task, coalesce(job.locks, ARRAY[job.lock]) AS locks,
               job.worker_id,
               CASE WHEN job.worker_id IS NULL THEN job.status END AS status
        FROM live_jobs AS job
        WHERE job.id = ANY (p_ids)
    ), in_hand AS MATERIALIZED (
        SELECT id, status FROM claimed_jobs
        WHERE EXISTS (SELECT FROM looked WHERE worker_id IS NOT NULL)
    )
    SELECT looked.queue, looked.task, looked.locks, coalesce(looked.status, in_hand.status)
    FROM looked LEFT JOIN in_hand ON in_hand.id = looked.id;
END $$;
