-- One row for each queue that has live jobs or a worker of its own. Jobs that could start now are
-- counted apart from those that could not.
--
-- The cost does not grow with the number of jobs. Each queue name takes one index probe. Runnable
-- jobs are counted among the first 1,000 of a queue in the two indexes that a claim reads. The
-- rest comes from the first 10,000 entries of their index, for all queues together.
CREATE OR REPLACE VIEW queue_status AS
WITH RECURSIVE free_name(queue) AS (
    (SELECT queue FROM jobs WHERE status = 'todo' AND lock IS NULL ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT jobs.queue FROM jobs
            WHERE status = 'todo' AND lock IS NULL AND jobs.queue > free_name.queue
            ORDER BY jobs.queue LIMIT 1)
    FROM free_name WHERE free_name.queue IS NOT NULL
), head_name(queue) AS (
    (SELECT queue FROM jobs WHERE status = 'todo' AND lock IS NOT NULL ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT jobs.queue FROM jobs
            WHERE status = 'todo' AND lock IS NOT NULL AND jobs.queue > head_name.queue
            ORDER BY jobs.queue LIMIT 1)
    FROM head_name WHERE head_name.queue IS NOT NULL
), in_lane AS MATERIALIZED (
    SELECT queue, status FROM jobs
    WHERE status IN ('todo', 'blocked') AND lock IS NOT NULL ORDER BY lock, priority DESC, id
    LIMIT 10000
), later AS MATERIALIZED (
    SELECT queue, id, lock, scheduled_at FROM jobs WHERE status = 'scheduled' ORDER BY scheduled_at
    LIMIT 10000
), in_hand AS MATERIALIZED (
    SELECT queue, status FROM claimed_jobs LIMIT 10000
), name AS MATERIALIZED (
    SELECT queue FROM free_name WHERE queue IS NOT NULL
    UNION SELECT queue FROM head_name WHERE queue IS NOT NULL
    UNION SELECT queue FROM in_lane
    UNION SELECT queue FROM later
    UNION SELECT queue FROM in_hand
    UNION SELECT unnest(queues) FROM workers
), front AS MATERIALIZED (
    SELECT name.queue, job.id, job.lock, job.since, job.is_token
    FROM name CROSS JOIN LATERAL (
        (SELECT id, lock, coalesce(scheduled_at, created_at) AS since, false AS is_token FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND jobs.queue = name.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT id, lock, coalesce(scheduled_at, created_at), true FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND jobs.queue = name.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        SELECT id, lock, scheduled_at, false FROM later WHERE later.queue = name.queue
            AND scheduled_at <= clock()
    ) AS job
), startable AS (
    SELECT front.queue,
           -- Only one job of each lane can start.
           count(*) FILTER (WHERE front.lock IS NULL) + count(DISTINCT front.lock)
               FILTER (WHERE open) AS runnable,
           min(front.since) FILTER (WHERE open) AS runnable_since,
           (array_agg(front.id ORDER BY front.since, front.id) FILTER (WHERE open))[1]
               AS oldest_id,
           count(*) FILTER (WHERE is_token) - count(DISTINCT front.lock)
               FILTER (WHERE is_token AND open) AS behind,
           greatest(count(*) FILTER (WHERE front.lock IS NULL), count(*)
               FILTER (WHERE is_token)) >= 1000 AS cut
    FROM front
    LEFT JOIN lanes ON lanes.lock = front.lock
    CROSS JOIN LATERAL (
        SELECT lanes.lock IS NULL OR (lanes.job_id = front.id AND lanes.stopped IS NULL) AS open
    ) AS lane
    GROUP BY front.queue
)
SELECT name.queue,
       coalesce(startable.runnable, 0) AS runnable,
       startable.runnable_since,
       coalesce(startable.behind, 0)
           + (SELECT count(*) FROM in_lane WHERE in_lane.queue = name.queue
               AND status = 'blocked') AS blocked,
       (SELECT count(*) FROM later WHERE later.queue = name.queue
           AND scheduled_at > clock()) AS scheduled,
       (SELECT count(*) FROM in_hand WHERE in_hand.queue = name.queue
           AND status = 'claimed') AS claimed,
       (SELECT count(*) FROM in_hand WHERE in_hand.queue = name.queue
           AND status = 'doing') AS doing,
       (SELECT count(*) FROM workers
        WHERE heartbeat_at > clock() - interval '30 seconds'
            AND (queues IS NULL OR name.queue = ANY (queues))) AS workers,
       coalesce(startable.cut, false) OR (SELECT count(*) FROM in_lane) >= 10000
           OR (SELECT count(*) FROM later) >= 10000
           OR (SELECT count(*) FROM in_hand) >= 10000 AS more,
       startable.oldest_id
FROM name LEFT JOIN startable ON startable.queue = name.queue
ORDER BY name.queue;

COMMENT ON VIEW queue_status IS
    'Queues: which jobs could start now, which could not, and who serves them.';
COMMENT ON COLUMN queue_status.queue IS 'The name of the queue.';
COMMENT ON COLUMN queue_status.runnable IS
    'Jobs that a worker could start now: one of each free lane, and all jobs without a lock. '
    'Scale by this number.';
COMMENT ON COLUMN queue_status.runnable_since IS
    'Since when the oldest of them has been due: since it was deferred, or since the time that '
    'it was scheduled for.';
COMMENT ON COLUMN queue_status.oldest_id IS 'The oldest of them.';
COMMENT ON COLUMN queue_status.blocked IS
    'Jobs that wait behind another job of their lane, or in a stopped lane: more workers would '
    'not help.';
COMMENT ON COLUMN queue_status.scheduled IS 'Jobs that are not due yet, including retries.';
COMMENT ON COLUMN queue_status.claimed IS
    'Jobs that a worker has, but runs others first.';
COMMENT ON COLUMN queue_status.doing IS 'Jobs that are running.';
COMMENT ON COLUMN queue_status.workers IS 'Live workers that serve the queue.';
COMMENT ON COLUMN queue_status.more IS
    'True if counting stopped early: the numbers are lower bounds.';
