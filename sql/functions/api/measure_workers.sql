-- Returns how many workers are in each state, and the schedules in their code, for metrics. The
-- states are those of worker_status, which also counts the jobs of each worker.
CREATE OR REPLACE FUNCTION measure_workers()
    RETURNS TABLE (state text, workers bigint, schedules text[])
LANGUAGE sql STABLE AS $$
    WITH seen AS (
        SELECT CASE WHEN NOT is_live(worker) THEN 'late' WHEN is_blocked(worker) THEN 'blocked'
                    WHEN queues = '{}' THEN 'stopping' ELSE 'live' END AS state, worker.schedules
        FROM workers AS worker
    )
    SELECT state, count(*), (
        SELECT coalesce(array_agg(DISTINCT schedule), '{}')
        FROM seen AS same CROSS JOIN LATERAL unnest(same.schedules) AS schedule
        WHERE same.state = seen.state)
    FROM seen GROUP BY state
$$;
