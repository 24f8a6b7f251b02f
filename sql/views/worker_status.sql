-- One row for each registered worker. If a worker's heartbeat is late, other workers will soon take
-- over its jobs.
CREATE OR REPLACE VIEW worker_status AS
SELECT workers.id, name, hostname, pid,
       -- Like is_live and is_blocked. Inside a view they would look for clock() on the reader's
       -- search_path.
       CASE WHEN NOT heard.lately THEN 'late'
            WHEN heartbeat_at - loop_turned_at > interval '10 seconds' THEN 'blocked'
            WHEN queues = '{}' THEN 'stopping'
            ELSE 'live' END AS state,
       in_hand.claimed, in_hand.doing, concurrency, queues, tasks, started_at, heartbeat_at,
       loop_turned_at, listens, clock_ahead,
       -- It may quote arguments, as errors do.
       CASE WHEN trouble IS NULL
               OR has_column_privilege('finished_jobs'::regclass, 'errors', 'SELECT')
            THEN trouble ELSE 'see its log' END AS trouble
FROM workers
CROSS JOIN LATERAL (
    SELECT heartbeat_at > clock() - greatest(interval '30 seconds', 3 * heartbeat_every) AS lately
) AS heard
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE claimed_jobs.status = 'claimed') AS claimed,
           count(*) FILTER (WHERE claimed_jobs.status = 'doing') AS doing
    FROM claimed_jobs WHERE worker_id = workers.id
) AS in_hand
ORDER BY heard.lately, name, started_at;

COMMENT ON VIEW worker_status IS 'Worker processes, late ones first.';
COMMENT ON COLUMN worker_status.id IS 'Random, new with each start.';
COMMENT ON COLUMN worker_status.name IS 'The name it was started with.';
COMMENT ON COLUMN worker_status.hostname IS 'The machine it runs on.';
COMMENT ON COLUMN worker_status.pid IS 'Its process there.';
COMMENT ON COLUMN worker_status.state IS
    'live: its last heartbeat is at most 30 seconds old, or three of its intervals if longer; '
    'late: older; blocked: live, but its event loop is blocked; stopping: it ends its jobs and '
    'takes no more.';
COMMENT ON COLUMN worker_status.claimed IS 'Claimed jobs that wait for one of its slots.';
COMMENT ON COLUMN worker_status.doing IS 'Jobs that it is running.';
COMMENT ON COLUMN worker_status.concurrency IS 'How many jobs it can run at once.';
COMMENT ON COLUMN worker_status.queues IS 'The queues it serves; NULL: all; empty: it is stopping.';
COMMENT ON COLUMN worker_status.tasks IS 'The tasks it knows; NULL: unknown.';
COMMENT ON COLUMN worker_status.started_at IS
    'When it first registered. A worker that was taken for dead registers again.';
COMMENT ON COLUMN worker_status.heartbeat_at IS 'When it last sent a heartbeat.';
COMMENT ON COLUMN worker_status.loop_turned_at IS
    'When its event loop last turned, as of its last heartbeat.';
COMMENT ON COLUMN worker_status.listens IS
    'True if notifications wake it; false if it cannot listen; NULL: it wants none, or has not '
    'reported yet.';
COMMENT ON COLUMN worker_status.clock_ahead IS
    'How far its clock was ahead of the server''s when it started, negative if behind; NULL: '
    'unknown.';
COMMENT ON COLUMN worker_status.trouble IS
    'Why the database refuses its calls, though not its heartbeats; NULL: it does not. If you may '
    'not read errors, you see only that it does.';
