-- Returns how many lanes are in each state, for metrics. A lane is `stalled` if the worker that
-- holds it is late or gone: its job will soon be taken over. An expired pause does not count.
--
-- Bounded: counting a state stops at 10,000, and retrying lanes are counted among the first 10,000
-- lanes only. `more` is true if there may be others.
CREATE OR REPLACE FUNCTION measure_lanes()
    RETURNS TABLE (state text, lanes bigint, more boolean)
LANGUAGE sql STABLE AS $$
    WITH running AS MATERIALIZED (
        SELECT job.id, lane.name, coalesce(is_live(worker), false) AS is_live
        FROM (SELECT id, lock, locks, worker_id FROM jobs WHERE status = 'doing'
            ORDER BY worker_id LIMIT 10000) AS job
        CROSS JOIN LATERAL unnest(coalesce(job.locks, ARRAY[job.lock])) AS lane(name)
        LEFT JOIN workers AS worker ON worker.id = job.worker_id
    )
    SELECT 'held', count(DISTINCT name) FILTER (WHERE is_live), count(DISTINCT id) >= 10000
    FROM running
    UNION ALL
    SELECT 'stalled', count(DISTINCT name) FILTER (WHERE NOT is_live), count(DISTINCT id) >= 10000
    FROM running
    UNION ALL
    SELECT 'halted', count(*) FILTER (WHERE state = 'halted'), count(*) >= 10000
    FROM (SELECT state FROM lanes WHERE stopped = 'halted' ORDER BY stopped_at LIMIT 10000) AS first
    UNION ALL
    SELECT 'paused',
           count(*) FILTER (WHERE state = 'paused' AND (stopped_until > clock()) IS NOT FALSE),
           count(*) >= 10000
    FROM (SELECT state, stopped_until FROM lanes WHERE stopped = 'paused'
          ORDER BY stopped_at LIMIT 10000) AS first
    UNION ALL
    SELECT 'delayed', count(*) FILTER (WHERE state = 'delayed'), count(*) >= 10000
    FROM (SELECT state FROM lanes WHERE coalesce(look_at, stopped_until) IS NOT NULL
          ORDER BY coalesce(look_at, stopped_until) LIMIT 10000) AS first
    UNION ALL
    SELECT 'retrying', count(*) FILTER (WHERE state = 'retrying'), count(*) >= 10000
    FROM (SELECT state FROM lanes WHERE state IS NOT NULL ORDER BY lock LIMIT 10000) AS first
$$;
