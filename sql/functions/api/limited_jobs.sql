-- Returns a job of each key whose limit holds jobs back, at most p_limit. It looks at the first
-- 1,000 jobs that wait for their limits.
CREATE OR REPLACE FUNCTION limited_jobs(p_limit integer) RETURNS SETOF bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    SELECT job.id FROM (
        SELECT DISTINCT ON (limit_key) limit_key, id FROM (
            SELECT id, limit_key FROM jobs WHERE status = 'limited' ORDER BY limit_key LIMIT 1000
        ) AS waiting
        ORDER BY limit_key, id LIMIT p_limit) AS job
    ORDER BY job.limit_key
$$;
