-- One row for each queue that has live jobs or a worker of its own. Jobs that could start now are
-- counted separately from those that could not.
--
-- The cost does not grow with the number of waiting jobs. Each queue name takes one index probe.
-- Runnable jobs are counted among the first 1,000 of a queue in each index that a claim reads (jobs
-- with a group are sorted by its name), and in the first 1,000 lanes whose pause is over or that a
-- claim will look at again. Jobs of stopped lanes and paused tasks are skipped, up to 10,000 of
-- them, to find 1,000 others. Jobs that workers have in hand are all read, at most about 1,000 per
-- worker. The rest comes from the first 10,000 entries of their index, for all queues together.
CREATE OR REPLACE VIEW queue_status AS
WITH RECURSIVE free_name(queue) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT (SELECT jobs.queue::text FROM jobs
            WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
              AND jobs.queue > free_name.queue
            ORDER BY jobs.queue LIMIT 1)
    FROM free_name WHERE free_name.queue IS NOT NULL
), head_name(queue) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT (SELECT jobs.queue::text FROM jobs
            WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
              AND jobs.queue > head_name.queue
            ORDER BY jobs.queue LIMIT 1)
    FROM head_name WHERE head_name.queue IS NOT NULL
), turn_name(queue) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT (SELECT jobs.queue::text FROM jobs
            WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue > turn_name.queue
            ORDER BY jobs.queue LIMIT 1)
    FROM turn_name WHERE turn_name.queue IS NOT NULL
), in_lane AS MATERIALIZED (
    SELECT queue, count(*) AS looked, count(*) FILTER (WHERE status = 'blocked') AS blocked
    FROM (
        SELECT queue, status FROM jobs
        WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND lock IS NOT NULL
            AND keeps_lanes IS NULL
        ORDER BY lock, priority DESC, id
        LIMIT 10000
    ) AS waiting
    GROUP BY queue
), limited AS MATERIALIZED (
    SELECT queue, count(*) AS looked
    FROM (SELECT queue FROM gated_jobs WHERE gate < 'task:'
          ORDER BY gate LIMIT 10000) AS job
    GROUP BY queue
), paused_task AS MATERIALIZED (
    SELECT task FROM paused_tasks
), aside AS MATERIALIZED (
    -- Jobs that claims have set aside. If the pause is over, the next claims wake them.
    SELECT job.*, task NOT IN (SELECT paused_task.task FROM paused_task) AS is_over
    FROM (SELECT * FROM gated_jobs WHERE gate >= 'task:'
          ORDER BY gate LIMIT 10000) AS job
), later AS MATERIALIZED (
    -- A claim would set those pending that come after a live job (see live_jobs).
    SELECT queue, id, lock, scheduled_at, priority, locks, shared, keeps_lanes, task,
           CASE WHEN has_parents AND scheduled_at <= clock() + interval '2 s' THEN (
               SELECT true FROM edges
               WHERE edges.child = job.id
                   AND (SELECT true FROM jobs WHERE jobs.id = edges.parent LIMIT 1) LIMIT 1
           ) IS NOT NULL ELSE false END AS is_pending
    FROM (SELECT * FROM jobs WHERE status = 'scheduled' ORDER BY scheduled_at LIMIT 10000) AS job
), pending AS MATERIALIZED (
    SELECT queue, count(*) AS looked
    FROM (
        (SELECT queue FROM jobs WHERE status = 'pending' ORDER BY scheduled_at LIMIT 10000)
        UNION ALL
        SELECT queue FROM later WHERE is_pending
    ) AS job
    GROUP BY queue
), in_hand AS MATERIALIZED (
    SELECT queue, count(*) AS looked, count(*) FILTER (WHERE status = 'claimed') AS claimed,
           count(*) FILTER (WHERE status = 'doing') AS doing
    FROM (SELECT queue, status FROM claimed_jobs LIMIT 10000) AS job
    GROUP BY queue
), lane_to_resume AS MATERIALIZED (
    SELECT lock, job_id FROM lanes
    WHERE coalesce(look_at, stopped_until) <= clock() AND worker_id IS NULL
    ORDER BY coalesce(look_at, stopped_until) LIMIT 1000
), resuming AS MATERIALIZED (
    -- The next claim makes these jobs tokens. While no worker runs, none has done so.
    SELECT head.queue, head.id, lane.lock, coalesce(head.scheduled_at, head.created_at) AS since,
           head.priority, head.task
    FROM lane_to_resume AS lane
    CROSS JOIN LATERAL (
        -- Not lane_heads: inside a view, a function looks for tables on the reader's search_path.
        SELECT queue, id, scheduled_at, created_at, priority, task FROM jobs
        WHERE status = 'blocked' AND id = coalesce(lane.job_id, (
            SELECT first.id FROM jobs AS first
            WHERE first.lock = lane.lock
                AND first.status IN ('todo', 'blocked', 'limited', 'paused')
                AND first.lock IS NOT NULL AND first.keeps_lanes IS NULL
            ORDER BY first.priority DESC, first.id LIMIT 1))
        LIMIT 1  -- so that no plan reads all jobs to join them
    ) AS head
), name AS MATERIALIZED (
    SELECT queue FROM (
        SELECT queue FROM free_name
        UNION SELECT queue FROM head_name
        UNION SELECT queue FROM turn_name
        UNION SELECT queue FROM in_lane
        UNION SELECT queue FROM limited
        UNION SELECT queue FROM aside
        UNION SELECT queue FROM later
        UNION SELECT queue FROM pending
        UNION SELECT queue FROM in_hand
        UNION SELECT queue FROM resuming
        UNION SELECT unnest(queues) FROM workers
    ) AS known
    -- The planner takes an equality for rare. With IS NOT NULL it would expect thousands of queues
    -- and a huge cost, and a server with JIT would compile all of this, which takes seconds.
    WHERE (queue <> '')::integer = 1
), stops AS MATERIALIZED (
    -- Until a claim has met them, jobs of stopped lanes and paused tasks are in front of others.
    SELECT FROM (
        (SELECT FROM lanes WHERE stopped IS NOT NULL LIMIT 1)
        UNION ALL SELECT FROM paused_task
    ) AS found LIMIT 1
), front AS MATERIALIZED (
    SELECT name.queue, job.*, job.task IN (SELECT paused_task.task FROM paused_task) AS is_paused
    FROM name CROSS JOIN LATERAL (
        (SELECT id, lock, coalesce(scheduled_at, created_at) AS since, false AS is_token,
             false AS waits, priority, locks, shared, keeps_lanes, task
         FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
           AND jobs.queue = name.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT id, lock, coalesce(scheduled_at, created_at), true, true, priority, locks, shared,
             keeps_lanes, task
         FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
           AND jobs.queue = name.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT id, lock, coalesce(scheduled_at, created_at), lock IS NOT NULL, lock IS NOT NULL,
             priority, locks, shared, keeps_lanes, task
         FROM jobs
         WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue = name.queue
         ORDER BY jobs.queue LIMIT 1000)
        UNION ALL
        (SELECT id, lock, coalesce(scheduled_at, created_at), lock IS NOT NULL, lock IS NOT NULL,
             priority, locks, shared, keeps_lanes, task
         FROM (
            (SELECT * FROM jobs
             WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
               AND jobs.queue = name.queue
             ORDER BY priority DESC, id OFFSET 1000 LIMIT 9000)
            UNION ALL
            (SELECT * FROM jobs
             WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
               AND jobs.queue = name.queue
             ORDER BY priority DESC, id OFFSET 1000 LIMIT 9000)
            UNION ALL
            (SELECT * FROM jobs
             WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue = name.queue
             ORDER BY jobs.queue OFFSET 1000 LIMIT 9000)
         ) AS further
         WHERE (SELECT true FROM stops) AND task NOT IN (SELECT paused_task.task FROM paused_task)
           AND NOT EXISTS (SELECT FROM lanes WHERE lanes.lock = further.lock
                           AND stopped IS NOT NULL)
         LIMIT 1000)
        UNION ALL
        SELECT id, lock, scheduled_at, false, false, priority, locks, shared, keeps_lanes, task
        FROM later
        WHERE later.queue = name.queue AND scheduled_at <= clock() AND NOT is_pending
        UNION ALL
        SELECT id, lock, since, false, true, priority, NULL, NULL, NULL, task
        FROM resuming WHERE resuming.queue = name.queue
        UNION ALL
        SELECT id, lock, since, false, false, priority, locks, shared, keeps_lanes, task
        FROM aside WHERE aside.queue = name.queue AND is_over
    ) AS job
    WHERE (job.id IS NOT NULL)::integer = 1  -- see name
), crossed AS (
    SELECT FROM (SELECT FROM waits UNION ALL SELECT FROM front WHERE locks IS NOT NULL) AS found
    LIMIT 1
), shut AS MATERIALIZED (
    -- Jobs with `locks` that are behind another job in a lane that they do not share, or that have
    -- a lane held against them. Readers also count as behind a writer that waits.
    SELECT front.id FROM front
    WHERE front.locks IS NOT NULL AND EXISTS (
        SELECT FROM unnest(front.locks) AS each(lock)
        CROSS JOIN LATERAL (
            SELECT coalesce(each.lock = ANY (front.shared), false)) AS lane(is_shared)
        LEFT JOIN LATERAL (
            SELECT lock, job_id, readers, stopped, stopped_until FROM lanes AS found
            WHERE found.lock = each.lock AND found.state IS NOT NULL LIMIT 1
        ) AS other ON true
        WHERE other.lock IS NOT NULL AND NOT (
                (other.stopped IS NULL OR coalesce(other.stopped_until <= clock(), false))
                AND (coalesce(other.job_id = front.id, false)
                    OR other.readers IS NOT NULL AND lane.is_shared))
            OR NOT lane.is_shared AND front.keeps_lanes IS NULL AND ((
                SELECT (waits.priority, front.id) > (front.priority, waits.id) FROM waits
                WHERE waits.lock = each.lock ORDER BY waits.priority DESC, waits.id LIMIT 1)
                OR (
                SELECT (jobs.priority, front.id) > (front.priority, jobs.id) FROM jobs
                WHERE jobs.lock = each.lock
                    AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
                    AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
                ORDER BY jobs.priority DESC, jobs.id LIMIT 1))
    )
), startable AS (
    SELECT front.queue,
           -- Only one job of each lane can start, or all that share it.
           count(*) FILTER (WHERE front.lock IS NULL AND NOT is_paused) + count(DISTINCT place)
               FILTER (WHERE open AND front.lock IS NOT NULL) AS runnable,
           count(*) FILTER (WHERE front.lock IS NULL AND is_paused) AS paused,
           min(front.since) FILTER (WHERE open) AS runnable_since,
           (array_agg(front.id ORDER BY front.since, front.id) FILTER (WHERE open))[1]
               AS oldest_id,
           count(*) FILTER (WHERE is_token) - count(DISTINCT place)
               FILTER (WHERE waits AND open) AS behind,
           greatest(count(*) FILTER (WHERE front.lock IS NULL), count(*)
               FILTER (WHERE is_token)) >= 1000 AS cut
    FROM front
    LEFT JOIN LATERAL (
        SELECT lock, worker_id, job_id, stopped, stopped_until, look_at FROM lanes AS found
        WHERE found.lock = front.lock AND found.state IS NOT NULL
        LIMIT 1  -- so that no plan reads all lanes to join them
    ) AS lanes ON true
    CROSS JOIN LATERAL (
        -- A pause that is over does not count.
        SELECT CASE WHEN front.is_paused THEN false
            WHEN front.locks IS NULL
            THEN lanes.lock IS NULL
                -- It is not behind a job with several lanes, or a reader. Others cost one probe.
                AND CASE WHEN (SELECT true FROM crossed) THEN (
                    SELECT (waits.priority, front.id) > (front.priority, waits.id) FROM waits
                    WHERE waits.lock = front.lock
                    ORDER BY waits.priority DESC, waits.id LIMIT 1) IS NOT TRUE
                    AND coalesce((
                        SELECT head.locks IS NULL FROM jobs AS head
                        WHERE head.lock = front.lock
                            AND head.status IN ('todo', 'blocked', 'limited', 'paused')
                            AND head.lock IS NOT NULL AND head.keeps_lanes IS NULL
                        ORDER BY head.priority DESC, head.id LIMIT 1), true) ELSE true END
                OR (lanes.job_id = front.id AND lanes.stopped IS NULL)
                OR (lanes.worker_id IS NULL AND coalesce(lanes.job_id = front.id, true)
                    AND coalesce(lanes.look_at, lanes.stopped_until) <= clock()) IS TRUE
            ELSE front.id NOT IN (SELECT shut.id FROM shut)
            END AS open,
            ROW(front.lock, CASE WHEN front.lock = ANY (front.shared) THEN front.id END) AS place
    ) AS lane
    GROUP BY front.queue
)
SELECT name.queue,
       CASE WHEN paused.it_is IS NULL THEN coalesce(startable.runnable, 0) ELSE 0 END AS runnable,
       CASE WHEN paused.it_is IS NULL THEN startable.runnable_since END AS runnable_since,
       -- At least 0: the head of a resumed lane may be beyond the 10,000.
       greatest(coalesce(startable.behind, 0) + coalesce(in_lane.blocked, 0), 0)
           + coalesce(startable.paused, 0)
           + (SELECT count(*) FROM aside WHERE aside.queue = name.queue AND NOT is_over)
           + CASE WHEN paused.it_is THEN coalesce(startable.runnable, 0) ELSE 0 END AS blocked,
       coalesce(limited.looked, 0) AS limited,
       (SELECT count(*) FROM later WHERE later.queue = name.queue
           AND scheduled_at > clock() AND NOT is_pending) AS scheduled,
       coalesce(pending.looked, 0) AS pending,
       coalesce(in_hand.claimed, 0) AS claimed,
       coalesce(in_hand.doing, 0) AS doing,
       (SELECT count(*) FROM workers
        WHERE heartbeat_at > clock() - greatest(interval '30 seconds', 3 * heartbeat_every)
            AND (queues IS NULL OR name.queue = ANY (queues))) AS workers,
       coalesce(startable.cut, false) OR coalesce((SELECT sum(looked) FROM in_lane), 0) >= 10000
           OR (SELECT count(*) FROM later) >= 10000
           OR coalesce((SELECT sum(looked) FROM pending), 0) >= 10000
           OR coalesce((SELECT sum(looked) FROM limited), 0) >= 10000
           OR (SELECT count(*) FROM aside) >= 10000
           OR coalesce((SELECT sum(looked) FROM in_hand), 0) >= 10000
           OR (SELECT count(*) FROM lane_to_resume) >= 1000 AS more,
       CASE WHEN paused.it_is IS NULL THEN startable.oldest_id END AS oldest_id
FROM name
CROSS JOIN LATERAL (
    SELECT (SELECT true FROM paused_queues
            WHERE coalesce(paused_queues.queue, name.queue) = name.queue LIMIT 1) AS it_is
) AS paused
LEFT JOIN startable ON startable.queue = name.queue
LEFT JOIN in_lane ON in_lane.queue = name.queue
LEFT JOIN pending ON pending.queue = name.queue
LEFT JOIN limited ON limited.queue = name.queue
LEFT JOIN in_hand ON in_hand.queue = name.queue
ORDER BY name.queue;

COMMENT ON VIEW queue_status IS
    'Queues: which jobs could start now, which could not, and who serves them.';
COMMENT ON COLUMN queue_status.queue IS 'The name of the queue.';
COMMENT ON COLUMN queue_status.runnable IS
    'Jobs that could start now: one of each free lane, all that may share one, and all without a '
    'lock. Scale by this number.';
COMMENT ON COLUMN queue_status.runnable_since IS 'Since when the oldest of them has been due.';
COMMENT ON COLUMN queue_status.oldest_id IS 'The oldest of them.';
COMMENT ON COLUMN queue_status.blocked IS
    'Jobs behind another of their lane, in a stopped lane, or of a paused queue or task.';
COMMENT ON COLUMN queue_status.limited IS 'Jobs that wait for their limit.';
COMMENT ON COLUMN queue_status.scheduled IS 'Jobs that are not due yet, including retries.';
COMMENT ON COLUMN queue_status.pending IS 'Jobs that wait for the end of other jobs.';
COMMENT ON COLUMN queue_status.claimed IS 'Jobs that a worker has but will run after others.';
COMMENT ON COLUMN queue_status.doing IS 'Jobs that are running.';
COMMENT ON COLUMN queue_status.workers IS 'Live workers that serve the queue.';
COMMENT ON COLUMN queue_status.more IS 'True if the numbers are only lower bounds.';
