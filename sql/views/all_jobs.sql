-- Live and finished jobs together, as people see them. To filter by status, filter by stored_as
-- first (see live_jobs).
CREATE OR REPLACE VIEW all_jobs AS
SELECT id, status, queue, task, lock, priority, attempts, args, errors, created_at, scheduled_at,
       started_at, NULL::timestamptz AS finished_at, worker_id, fence, queueing_lock, timeout,
       NULL::jsonb AS result, stored_as, expires_at, limit_key, group_key, batch_id,
       progress, locks, shared, headers
FROM live_jobs
UNION ALL
SELECT id, status, queue, task, lock, priority, attempts, args, errors, created_at, scheduled_at,
       started_at, finished_at, worker_id, fence, queueing_lock, timeout, result, status,
       expires_at, limit_key, group_key, batch_id,
       (SELECT jsonb_build_object('done', reported.done, 'total', reported.total,
            'text', reported.text, 'updated_at', reported.updated_at)
        FROM progress AS reported
        WHERE reported.job_id = finished_jobs.id AND reported.fence = finished_jobs.fence),
       locks, shared, headers
FROM finished_jobs;

COMMENT ON VIEW all_jobs IS 'Every job, live and finished.';
COMMENT ON COLUMN all_jobs.id IS 'Its number, which rises with each job.';
COMMENT ON COLUMN all_jobs.status IS
    'As in live_jobs until it ends, then succeeded, failed, cancelled, or aborted (while it ran).';
COMMENT ON COLUMN all_jobs.queue IS 'Its queue.';
COMMENT ON COLUMN all_jobs.task IS 'Its task.';
COMMENT ON COLUMN all_jobs.lock IS 'Its lock, which names its lane; NULL: none.';
COMMENT ON COLUMN all_jobs.priority IS 'Higher goes first.';
COMMENT ON COLUMN all_jobs.attempts IS 'Its attempts, including the one that it is claimed for.';
COMMENT ON COLUMN all_jobs.args IS 'Its arguments by name.';
COMMENT ON COLUMN all_jobs.errors IS
    'Its last failed attempts, at most ten: attempt, at, error, and started_at and worker if '
    'known. lost: its worker died; crashed: its worker failed.';
COMMENT ON COLUMN all_jobs.created_at IS 'When it was deferred.';
COMMENT ON COLUMN all_jobs.scheduled_at IS 'When it is or was due; NULL: at once.';
COMMENT ON COLUMN all_jobs.started_at IS 'When a worker last claimed it; NULL: never.';
COMMENT ON COLUMN all_jobs.finished_at IS 'When it ended; NULL: not yet.';
COMMENT ON COLUMN all_jobs.worker_id IS 'The worker that has it or ended it; NULL: none.';
COMMENT ON COLUMN all_jobs.fence IS 'Rises with each start of any job; NULL: never claimed.';
COMMENT ON COLUMN all_jobs.queueing_lock IS 'At most one job waits under it; NULL: none.';
COMMENT ON COLUMN all_jobs.timeout IS 'How long a run may take; NULL: no limit.';
COMMENT ON COLUMN all_jobs.limit_key IS 'The key of its limit; NULL: none.';
COMMENT ON COLUMN all_jobs.group_key IS 'Its group, which takes turns with others; NULL: none.';
COMMENT ON COLUMN all_jobs.batch_id IS 'Its batch, or the one whose callback it is; NULL: none.';
COMMENT ON COLUMN all_jobs.result IS 'What the task returned; NULL: nothing, or not yet.';
COMMENT ON COLUMN all_jobs.stored_as IS
    'The status in the tables: todo or paused for some blocked jobs, and doing for claimed ones.';
COMMENT ON COLUMN all_jobs.expires_at IS 'When it is cancelled unless it has started; NULL: never.';
COMMENT ON COLUMN all_jobs.progress IS
    'Progress reported by the last attempt: done, total, text, updated_at; NULL: none.';
COMMENT ON COLUMN all_jobs.locks IS 'All of its locks, if several or shared; otherwise NULL.';
COMMENT ON COLUMN all_jobs.shared IS 'The locks of lanes that it shares; NULL: none.';
COMMENT ON COLUMN all_jobs.headers IS
    'Its headers, with the trace that deferred it as otel; NULL: none.';
