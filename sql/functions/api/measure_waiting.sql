-- Returns, for each queue, since when its oldest waiting job has been due, the same for its oldest
-- job in a lane, how many jobs wait in its longest lane, and the job that has waited longest for
-- its limit or in a lane that is not stopped: for metrics and the doctor. Jobs that are scheduled
-- or wait for others do not count; queue_status knows which of them are due.
--
-- Bounded: it looks at the 10,000 oldest live jobs, and at the first 10,000 that wait in lanes,
-- sorted by lock. `more` is true in each row if there may be others.
CREATE OR REPLACE FUNCTION measure_waiting()
    RETURNS TABLE (queue text, since timestamptz, lane_since timestamptz, longest bigint,
                   more boolean, job_id bigint, job_since timestamptz,
                   job_lock text)
LANGUAGE sql STABLE AS $$
    WITH oldest AS MATERIALIZED (
        SELECT id, status, queue, lock, coalesce(scheduled_at, created_at) AS since FROM jobs
        ORDER BY id LIMIT 10000
    ), in_lanes AS MATERIALIZED (
        SELECT id, status, queue, lock, coalesce(scheduled_at, created_at) AS since FROM jobs
        WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND lock IS NOT NULL
            AND keeps_lanes IS NULL
        ORDER BY lock, priority DESC, id LIMIT 10000
    ), job AS MATERIALIZED (
        SELECT *, lock IS NOT NULL OR status = 'limited' AS stands
        FROM (TABLE oldest UNION TABLE in_lanes) AS found
        WHERE status IN ('todo', 'blocked', 'limited', 'paused')
    ), lane AS (
        SELECT queue, lock, min(since) AS since, count(*) AS waiting FROM job GROUP BY queue, lock
    ), stopped AS MATERIALIZED (
        (SELECT lock FROM lanes WHERE stopped = 'halted' ORDER BY stopped_at LIMIT 10000)
        UNION ALL
        (SELECT lock FROM lanes WHERE stopped = 'paused' ORDER BY stopped_at LIMIT 10000)
    ), first AS (
        SELECT DISTINCT ON (queue) queue, id, since, lock FROM job
        WHERE stands AND (lock IS NULL OR lock NOT IN (SELECT stopped.lock FROM stopped))
        ORDER BY queue, since, id
    )
    SELECT lane.queue::text, min(lane.since), min(lane.since) FILTER (WHERE lane.lock IS NOT NULL),
           coalesce(max(waiting) FILTER (WHERE lane.lock IS NOT NULL), 0),
           (SELECT count(*) FROM oldest) >= 10000, first.id, first.since, first.lock::text
    FROM lane LEFT JOIN first ON first.queue = lane.queue
    GROUP BY lane.queue, first.id, first.since, first.lock
$$;
