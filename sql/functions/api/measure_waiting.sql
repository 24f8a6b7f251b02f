-- Returns, for each queue, since when its oldest waiting job has been due, the same of its oldest
-- job in a lane, and how many jobs wait in its longest lane: for metrics. Jobs that are scheduled
-- or wait for others do not count: queue_status knows which of them are due.
--
-- Bounded: it looks at the 10,000 oldest live jobs, and at the first 10,000 that wait in lanes,
-- sorted by lock. `more` is true in each row if there may be others.
CREATE OR REPLACE FUNCTION measure_waiting()
    RETURNS TABLE (queue text, since timestamptz, lane_since timestamptz, longest bigint,
                   more boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    WITH oldest AS MATERIALIZED (
        SELECT id, status, queue, lock, coalesce(scheduled_at, created_at) AS since FROM jobs
        ORDER BY id LIMIT 10000
    ), in_lanes AS MATERIALIZED (
        SELECT id, status, queue, lock, coalesce(scheduled_at, created_at) AS since FROM jobs
        WHERE status IN ('todo', 'blocked', 'limited') AND lock IS NOT NULL AND keeps_lanes IS NULL
        ORDER BY lock, priority DESC, id LIMIT 10000
    ), lane AS (
        SELECT queue, lock, min(since) AS since, count(*) AS waiting
        FROM (TABLE oldest UNION TABLE in_lanes) AS job
        WHERE status IN ('todo', 'blocked', 'limited')
        GROUP BY queue, lock
    )
    SELECT queue::text, min(since), min(since) FILTER (WHERE lock IS NOT NULL),
           coalesce(max(waiting) FILTER (WHERE lock IS NOT NULL), 0),
           (SELECT count(*) FROM oldest) >= 10000
    FROM lane GROUP BY queue
$$;
