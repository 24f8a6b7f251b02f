-- Returns how many workers are in each state, and the tasks that those know: for metrics. The
-- states are those of worker_status, which also counts the jobs of each worker.
CREATE OR REPLACE FUNCTION measure_workers()
    RETURNS TABLE (state text, workers bigint, tasks text[])
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH seen AS (
        SELECT CASE WHEN NOT is_live(worker) THEN 'late' WHEN is_blocked(worker) THEN 'blocked'
                    ELSE 'live' END AS state, worker.tasks
        FROM workers AS worker
    )
    SELECT state, count(*), (
        SELECT coalesce(array_agg(DISTINCT task), '{}')
        FROM seen AS same CROSS JOIN LATERAL unnest(same.tasks) AS task
        WHERE same.state = seen.state)
    FROM seen GROUP BY state
$$;
