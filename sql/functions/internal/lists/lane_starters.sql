-- Returns the jobs that may be able to start in their lanes: the heads of at most p_looked lanes,
-- the jobs that these lanes wait for, and at most p_looked jobs that keep their lanes. Leaves out
-- lanes that a worker holds or that are stopped. is_cut tells whether there may be more lanes. With
-- a lock or a prefix of locks in the filter, looks only at these lanes.
--
-- One probe finds a lane and its head, and another one its row. Where a job of another lane goes
-- first in a lane, live_jobs tells: that job is looked at in its own lane.
CREATE OR REPLACE FUNCTION lane_starters(
    p_filter job_filter, p_looked integer, OUT ids bigint[], OUT is_cut boolean
)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line(lock, id, status) AS (
        (SELECT jobs.lock::text, jobs.id, jobs.status FROM jobs
         WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
             AND jobs.keeps_lanes IS NULL AND (p_filter).lock IS NULL
             AND jobs.lock >= coalesce((p_filter).lock_prefix, '')
         ORDER BY jobs.lock, jobs.priority DESC, jobs.id LIMIT 1)
        UNION ALL
        SELECT next.lock, next.id, next.status FROM line
        CROSS JOIN LATERAL (
            SELECT jobs.lock, jobs.id, jobs.status FROM jobs
            WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
                AND jobs.keeps_lanes IS NULL AND jobs.lock > line.lock
            ORDER BY jobs.lock, jobs.priority DESC, jobs.id LIMIT 1) AS next
        WHERE starts_with(line.lock, coalesce((p_filter).lock_prefix, ''))
    ), other(lock, id) AS (   -- jobs whose first lane may have another prefix
        (SELECT waits.lock::text, waits.id FROM waits
         WHERE waits.lock >= (p_filter).lock_prefix AND (p_filter).lock IS NULL
         ORDER BY waits.lock, waits.priority DESC, waits.id LIMIT 1)
        UNION ALL
        SELECT next.lock, next.id FROM other
        CROSS JOIN LATERAL (
            SELECT waits.lock, waits.id FROM waits WHERE waits.lock > other.lock
            ORDER BY waits.lock, waits.priority DESC, waits.id LIMIT 1) AS next
        WHERE starts_with(other.lock, (p_filter).lock_prefix)
    ), looked AS MATERIALIZED (
        (SELECT line.lock, line.id, line.status FROM line LIMIT p_looked)
        UNION ALL
        (SELECT other.lock, other.id, 'todo' FROM other LIMIT p_looked)
        UNION ALL
        SELECT head.lock, head.id, 'todo' FROM lane_heads(ARRAY[(p_filter).lock]) AS head
        WHERE (p_filter).lock IS NOT NULL
    ), kept AS MATERIALIZED (
        SELECT jobs.id FROM jobs WHERE jobs.keeps_lanes ORDER BY jobs.id LIMIT p_looked
    )
    SELECT ARRAY(
        SELECT kept.id FROM kept
        UNION
        SELECT lanes.job_id FROM lanes
        WHERE lanes.lock = (p_filter).lock AND lanes.job_id IS NOT NULL
        UNION
        -- A lane that waits for a retry may have another head.
        SELECT coalesce(lane.job_id, looked.id) FROM looked
        LEFT JOIN LATERAL (
            SELECT lanes.job_id, lanes.worker_id IS NOT NULL OR lanes.stopped IS NOT NULL
                AND (lanes.stopped_until > clock()) IS NOT FALSE AS is_closed
            FROM lanes WHERE lanes.lock = looked.lock LIMIT 1) AS lane ON true
        WHERE lane.is_closed IS NOT TRUE AND (lane.job_id IS NOT NULL OR looked.status = 'todo')),
        greatest((SELECT count(*) FROM looked), (SELECT count(*) FROM kept)) >= p_looked
$$;
