-- Returns lanes and limits that have been held for long, the longest first, at most p_limit: their
-- job has run for three times as long as 99 of 100 jobs of its task did in the last day, and for at
-- least ten minutes. If none has ended in the last day, it has run for an hour. `usual` is the time
-- that 99 of 100 took. A job without a lock has only a limit_key.
--
-- Bounded: it looks at the 100 longest-running jobs that have a lock or a limit.
CREATE OR REPLACE FUNCTION held_for_long(p_limit integer)
    RETURNS TABLE (lock text, job_id bigint, task text, since timestamptz, usual interval,
                   limit_key text)
LANGUAGE sql STABLE
SET jit = off
AS $$
    WITH running AS MATERIALIZED (
        SELECT job.lock, job.id, job.task, job.claimed_at, own.limit_key
        FROM claimed_jobs AS job CROSS JOIN LATERAL (
            SELECT limit_key::text FROM jobs WHERE jobs.id = job.id LIMIT 1
        ) AS own
        WHERE job.status = 'doing' AND coalesce(job.lock, own.limit_key) IS NOT NULL
            AND job.claimed_at < clock() - interval '10 minutes'
        ORDER BY job.claimed_at LIMIT 100
    ), bin AS (
        SELECT rollups.task, bins.bin, sum(bins.run) AS jobs
        FROM rollups CROSS JOIN LATERAL unnest(rollups.runs) WITH ORDINALITY AS bins(run, bin)
        WHERE minutes = 60 AND at >= clock() - interval '1 day'
            AND rollups.task = ANY (ARRAY(SELECT running.task FROM running))
        GROUP BY rollups.task, bins.bin
    ), known AS (
        SELECT bin.task, percentile(array_agg(jobs::bigint ORDER BY bin), 0.99) AS usual
        FROM bin GROUP BY bin.task
    )
    SELECT running.lock, running.id, running.task, running.claimed_at, known.usual,
        running.limit_key
    FROM running LEFT JOIN known ON known.task = running.task
    WHERE running.claimed_at < clock() - CASE WHEN known.usual IS NULL THEN interval '1 hour'
        ELSE greatest(interval '10 minutes', 3 * known.usual) END
    ORDER BY running.claimed_at, running.id LIMIT p_limit
$$;
