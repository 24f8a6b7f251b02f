-- How long a worker that found nothing may sleep if nobody wakes it.
--   delay    until the next scheduled job, the end of a pause or the next look at a lane is due; zero if there is a job to start that it could not take a
--            moment ago (somebody was at work on its lane); NULL: as long as it likes
--   told     whoever defers from now on sees that the worker is not awake. False: a transaction is still open that began before
--            the worker had said so, and may commit a job without a word; look again soon
--   horizon  for the next call, until the worker has been awake again: the transactions to wait for are older than this
CREATE OR REPLACE FUNCTION next_wake(
    p_queues text[], p_horizon xid8 DEFAULT NULL, OUT delay interval, OUT told boolean, OUT horizon xid8
)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
SET enable_seqscan = off
AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM unnest(coalesce(p_queues, ready_queues())) AS q(queue)
        WHERE EXISTS (SELECT FROM jobs WHERE status = 'todo' AND lock IS NULL AND jobs.queue = q.queue)
           OR EXISTS (SELECT FROM jobs WHERE status = 'todo' AND lock IS NOT NULL AND jobs.queue = q.queue)
    ) THEN interval '0'
    ELSE (
        SELECT greatest(min(due.at) - clock(), interval '0') FROM (
            (SELECT scheduled_at FROM jobs WHERE status = 'scheduled' ORDER BY scheduled_at LIMIT 1)
            UNION ALL
            (SELECT coalesce(look_at, stopped_until) FROM lanes
             WHERE coalesce(look_at, stopped_until) IS NOT NULL ORDER BY coalesce(look_at, stopped_until) LIMIT 1)
        ) AS due(at) HAVING count(*) > 0
    ) END,
    -- One snapshot for all of it: what a transaction left that is over by now, the look above has seen.
    pg_snapshot_xmin(pg_current_snapshot()) >= began.horizon,
    began.horizon
    -- A number of its own: the end of the snapshot is the last that is over, and others may have begun after that one.
    FROM (SELECT CASE WHEN p_horizon IS NULL THEN pg_current_xact_id() ELSE p_horizon END) AS began(horizon)
$$;
