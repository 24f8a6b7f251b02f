-- Returns how many jobs a minute ran in each of these lanes in the last ten minutes. A lane is
-- missing if fewer than five are among the 10,000 ended jobs of all lanes that were deferred last:
-- the history has no index by lane. Five jobs of one second are five in a minute, and not 300, so
-- that the number does not jump.
CREATE OR REPLACE FUNCTION measure_paces(p_locks text[])
RETURNS TABLE (lock text, per_minute float8)
LANGUAGE sql STABLE AS $$
    SELECT lane.lock, 60 * count(*)
        / greatest(extract(epoch FROM clock() - min(job.finished_at)), 60)::float8
    FROM (
        SELECT finished_jobs.lock, locks, started_at, finished_at FROM finished_jobs
        ORDER BY id DESC LIMIT 10000
    ) AS job
    CROSS JOIN LATERAL unnest(coalesce(job.locks, ARRAY[job.lock])) AS lane(lock)
    WHERE lane.lock IN (SELECT unnest(p_locks)) AND job.lock IS NOT NULL
        AND job.started_at IS NOT NULL
        AND job.finished_at > clock() - interval '10 minutes'
    GROUP BY lane.lock HAVING count(*) >= 5
$$;
