-- The jobs that have not ended, with the statuses that people see. Only here are they derived from
-- those that the engine stores:
-- * A job that waits behind another one may be stored as `todo`, until a claim meets it and sets it
--   `blocked`. Here it is blocked at once. When a pause is over, a job stored as blocked stays
--   blocked here until the next claim (queue_status counts its lane as runnable at once).
-- * A job of a paused task becomes `paused` when a claim meets it. Here it is blocked at once. When
--   the pause is over, it stays blocked here until claims have woken it.
-- * A job that comes after others is stored as scheduled until a claim meets it. Here it is pending
--   once it is due, as in is_pending. If its parents have ended, it stays pending until then
--   (queue_status counts it as runnable).
-- * A claimed job is stored as `doing`. Here it is `claimed` until it has a slot.
--
-- This costs up to two index probes for each `todo` in a lane, and a look at the worker's jobs for
-- each `doing`. If you look for a status, filter by stored_as first.
CREATE OR REPLACE VIEW live_jobs AS
SELECT jobs.id,
       CASE
           WHEN jobs.status = 'doing' THEN (
               SELECT claimed_jobs.status FROM claimed_jobs
               WHERE claimed_jobs.worker_id = jobs.worker_id AND claimed_jobs.id = jobs.id)
           WHEN jobs.status = 'scheduled' AND jobs.has_parents
               AND jobs.scheduled_at <= clock() + interval '2 s' THEN 'pending'::job_status
           WHEN jobs.status = 'paused' OR jobs.status = 'todo' AND jobs.task IN (
               SELECT paused_tasks.task FROM paused_tasks
           ) THEN 'blocked'::job_status
           WHEN jobs.status = 'todo' AND jobs.locks IS NOT NULL THEN CASE WHEN EXISTS (
               -- One of its lanes is held against it, or another job goes first there.
               SELECT FROM unnest(jobs.locks) AS lane(lock)
               LEFT JOIN LATERAL (
                   SELECT lock, job_id, readers, stopped, stopped_until FROM lanes AS found
                   WHERE found.lock = lane.lock AND found.state IS NOT NULL
                   LIMIT 1  -- so that no plan reads all lanes to join them
               ) AS lanes ON true
               WHERE lanes.lock IS NOT NULL AND NOT (
                       (lanes.stopped IS NULL OR coalesce(lanes.stopped_until <= clock(), false))
                       AND (coalesce(lanes.job_id = jobs.id, false) OR lanes.readers IS NOT NULL
                            AND coalesce(lane.lock = ANY (jobs.shared), false)))
                  OR jobs.keeps_lanes IS NULL AND ((
                       SELECT (waits.priority, jobs.id) > (jobs.priority, waits.id) FROM waits
                       WHERE waits.lock = lane.lock
                       ORDER BY waits.priority DESC, waits.id LIMIT 1)
                     OR (
                       SELECT (head.priority, jobs.id) > (jobs.priority, head.id)
                       FROM jobs AS head
                       WHERE head.lock = lane.lock
                           AND head.status IN ('todo', 'blocked', 'limited', 'paused')
                           AND head.lock IS NOT NULL AND head.keeps_lanes IS NULL
                       ORDER BY head.priority DESC, head.id LIMIT 1))
               ) THEN 'blocked'::job_status ELSE 'todo' END
           WHEN jobs.status = 'todo' AND jobs.lock IS NOT NULL AND coalesce(
               -- The lane's row tells who goes first. A pause that is over does not count.
               (SELECT CASE
                    WHEN lanes.worker_id IS NOT NULL OR lanes.readers IS NOT NULL
                        OR lanes.look_at IS NOT NULL
                        OR (lanes.stopped IS NOT NULL
                            AND (lanes.stopped_until > clock()) IS NOT FALSE) THEN true
                    ELSE lanes.job_id <> jobs.id END
                FROM lanes WHERE lanes.lock = jobs.lock),
               -- Not lane_heads: inside a view, a function looks for tables on the reader's
               -- search_path.
               nullif((
                   SELECT (waits.priority, jobs.id) > (jobs.priority, waits.id) FROM waits
                   WHERE waits.lock = jobs.lock
                   ORDER BY waits.priority DESC, waits.id LIMIT 1), false),
               (SELECT head.id <> jobs.id FROM jobs AS head
                WHERE head.lock = jobs.lock
                    AND head.status IN ('todo', 'blocked', 'limited', 'paused')
                    AND head.lock IS NOT NULL AND head.keeps_lanes IS NULL
                ORDER BY head.priority DESC, head.id LIMIT 1)
           ) THEN 'blocked'
           ELSE jobs.status
       END AS status,
       -- Views and functions show the base types of domains: some clients cannot read an array of a
       -- domain.
       jobs.status AS stored_as, jobs.queue::text, jobs.task::text, jobs.lock::text, jobs.priority,
       jobs.attempts, jobs.args::jsonb, jobs.errors, jobs.created_at,
       jobs.scheduled_at::timestamptz, jobs.started_at, jobs.worker_id, jobs.fence,
       jobs.queueing_lock::text, jobs.timeout::interval, jobs.abort,
       jobs.expires_at::timestamptz, jobs.limit_key::text, jobs.group_key::text,
       jobs.batch_id,
       (SELECT jsonb_build_object('done', reported.done, 'total', reported.total,
            'text', reported.text, 'updated_at', reported.updated_at)
        FROM progress AS reported
        WHERE reported.job_id = jobs.id AND reported.fence = jobs.fence) AS progress,
       jobs.locks, jobs.shared, jobs.headers::jsonb
FROM jobs;

COMMENT ON VIEW live_jobs IS 'Jobs that have not ended.';
COMMENT ON COLUMN live_jobs.id IS 'Its number, which rises with each job.';
COMMENT ON COLUMN live_jobs.status IS
    'todo, blocked, limited, scheduled, pending, claimed or doing.';
COMMENT ON COLUMN live_jobs.stored_as IS 'Its status in the tables.';
COMMENT ON COLUMN live_jobs.queue IS 'Its queue.';
COMMENT ON COLUMN live_jobs.task IS 'Its task.';
COMMENT ON COLUMN live_jobs.lock IS 'Its lock, which names its lane; NULL: none.';
COMMENT ON COLUMN live_jobs.priority IS 'Higher goes first.';
COMMENT ON COLUMN live_jobs.attempts IS 'Its attempts, including the one that it is claimed for.';
COMMENT ON COLUMN live_jobs.args IS 'Its arguments by name.';
COMMENT ON COLUMN live_jobs.errors IS
    'Its last failed attempts, at most ten: attempt, at, error, and started_at and worker if '
    'known. lost: its worker died; crashed: its worker failed.';
COMMENT ON COLUMN live_jobs.created_at IS 'When it was deferred.';
COMMENT ON COLUMN live_jobs.scheduled_at IS 'When it is or was due; NULL: at once.';
COMMENT ON COLUMN live_jobs.started_at IS 'When a worker last claimed it; NULL: never.';
COMMENT ON COLUMN live_jobs.worker_id IS 'The worker that has it; NULL: none.';
COMMENT ON COLUMN live_jobs.fence IS 'Rises with each start of any job; NULL: never claimed.';
COMMENT ON COLUMN live_jobs.queueing_lock IS 'At most one job waits under it; NULL: none.';
COMMENT ON COLUMN live_jobs.timeout IS 'How long a run may take; NULL: no limit.';
COMMENT ON COLUMN live_jobs.limit_key IS 'The key of its limit; NULL: none.';
COMMENT ON COLUMN live_jobs.group_key IS 'Its group, which takes turns with others; NULL: none.';
COMMENT ON COLUMN live_jobs.batch_id IS 'Its batch, or the one whose callback it is; NULL: none.';
COMMENT ON COLUMN live_jobs.abort IS 'True if it was asked to abort.';
COMMENT ON COLUMN live_jobs.expires_at IS
    'When it is cancelled unless it has started; NULL: never.';
COMMENT ON COLUMN live_jobs.progress IS
    'Progress reported by the last attempt: done, total, text, updated_at; NULL: none.';
COMMENT ON COLUMN live_jobs.locks IS 'All of its locks, if several or shared; otherwise NULL.';
COMMENT ON COLUMN live_jobs.shared IS 'The locks of lanes that it shares; NULL: none.';
COMMENT ON COLUMN live_jobs.headers IS
    'Its headers, with the trace that deferred it as otel; NULL: none.';
