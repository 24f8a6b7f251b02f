-- Lanes that no worker holds but in which nothing can start: the next job of each has other lanes
-- too, and waits for one of them. They have no row in `lanes`, or a free one, so nothing else shows
-- them.
--
-- Bounded: it looks at the first 1,000 lanes that are not the first lane of a job, and at the first
-- lanes of the ten jobs in front of each. While no job with several lanes waits, it is one probe.
CREATE OR REPLACE VIEW idle_lanes AS
WITH RECURSIVE line(lock) AS (
    (SELECT lock FROM waits ORDER BY lock LIMIT 1)
    UNION ALL
    SELECT (SELECT waits.lock FROM waits WHERE waits.lock > line.lock ORDER BY waits.lock LIMIT 1)
    FROM line WHERE line.lock IS NOT NULL
), crossed AS MATERIALIZED (
    SELECT lock FROM line WHERE lock IS NOT NULL LIMIT 1000
), lane AS MATERIALIZED (
    SELECT lock FROM crossed
    UNION
    SELECT job.lock FROM crossed
    CROSS JOIN LATERAL (
        SELECT waits.id FROM waits WHERE waits.lock = crossed.lock
        ORDER BY waits.priority DESC, waits.id LIMIT 10
    ) AS front
    CROSS JOIN LATERAL (SELECT jobs.lock FROM jobs WHERE jobs.id = front.id LIMIT 1) AS job
)
SELECT lane.lock::text, head.id AS job_id,
       coalesce(head.scheduled_at::timestamptz, head.created_at) AS since,
       closed.lock AS waits_for
FROM lane
CROSS JOIN LATERAL (
    SELECT line.id FROM (
        -- Not lane_heads: inside a view, a function looks for tables on the reader's search_path.
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock = lane.lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
         ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
        UNION ALL
        (SELECT waits.priority, waits.id FROM waits WHERE waits.lock = lane.lock
         ORDER BY waits.priority DESC, waits.id LIMIT 1)
    ) AS line ORDER BY line.priority DESC, line.id LIMIT 1
) AS first
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = first.id LIMIT 1) AS head
CROSS JOIN LATERAL (
    -- As in live_jobs: it is held against the job, or another one goes first there.
    SELECT other.lock FROM unnest(head.locks) AS other(lock)
    LEFT JOIN LATERAL (
        SELECT lock, job_id, readers, stopped, stopped_until FROM lanes AS found
        WHERE found.lock = other.lock AND found.state IS NOT NULL LIMIT 1
    ) AS lanes ON true
    WHERE other.lock <> lane.lock AND (
        lanes.lock IS NOT NULL AND NOT (
            (lanes.stopped IS NULL OR coalesce(lanes.stopped_until <= clock(), false))
            AND (coalesce(lanes.job_id = head.id, false)
                OR lanes.readers IS NOT NULL AND coalesce(other.lock = ANY (head.shared), false)))
        OR (
            SELECT (waits.priority, head.id) > (head.priority, waits.id) FROM waits
            WHERE waits.lock = other.lock ORDER BY waits.priority DESC, waits.id LIMIT 1)
        OR (
            SELECT (jobs.priority, head.id) > (head.priority, jobs.id) FROM jobs
            WHERE jobs.lock = other.lock
                AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
                AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            ORDER BY jobs.priority DESC, jobs.id LIMIT 1))
    ORDER BY other.lock LIMIT 1
) AS closed
WHERE NOT EXISTS (SELECT FROM lanes WHERE lanes.lock = lane.lock AND lanes.state IS NOT NULL);

COMMENT ON VIEW idle_lanes IS 'Free lanes whose next job waits for another lane, at most 11,000.';
COMMENT ON COLUMN idle_lanes.lock IS 'The lock of the lane.';
COMMENT ON COLUMN idle_lanes.job_id IS 'Its next job.';
COMMENT ON COLUMN idle_lanes.since IS 'Since when that job has been due.';
COMMENT ON COLUMN idle_lanes.waits_for IS 'The first lane that its next job waits for.';
