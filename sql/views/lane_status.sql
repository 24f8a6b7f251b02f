-- One row for each lane that is held, retrying, stopped or delayed, or that is idle because its
-- next job waits for another lane. Shows who holds or stopped the lane, since when, which job runs
-- or goes next, and how many wait. Halted lanes come first, then paused ones. Counting stops at
-- 1,000.
CREATE OR REPLACE VIEW lane_status AS
WITH in_hand AS MATERIALIZED (
    -- One value, searched by its keys. With wrong statistics, a join would compare each lane with
    -- each job.
    SELECT jsonb_object_agg(CASE WHEN lane.is_shared THEN '' ELSE worker_id::text END || lane.lock,
        jsonb_build_array(id, status)) AS jobs
    FROM claimed_jobs CROSS JOIN LATERAL (
        SELECT name, coalesce(name = ANY (shared), false)
        FROM unnest(coalesce(locks, ARRAY[lock])) AS name
    ) AS lane(lock, is_shared)
    WHERE claimed_jobs.lock IS NOT NULL
)
SELECT lanes.lock, lanes.state, lanes.since,
       job.id AS job_id, coalesce(held.status, job.status) AS job_status, job.task, job.attempts,
       job.scheduled_at AS due_at, workers.name AS worker, workers.heartbeat_at,
       least(behind.counted, 1000) AS waiting, behind.counted > 1000 AS more,
       coalesce(failed.errors, job.errors) -> -1 ->> 'error' AS last_error,
       lanes.stopped, lanes.stopped_at, lanes.stopped_until, lanes.stopped_by, lanes.stop_reason,
       lanes.failed_job_id, failed.task AS failed_task, lanes.readers, lanes.waits_for
FROM (
    SELECT lock, worker_id, job_id, since, stopped, stopped_at, stopped_until, failed_job_id,
           stopped_by, stop_reason, readers, state, NULL AS waits_for
    FROM lanes WHERE state IS NOT NULL
    UNION ALL
    SELECT lock, NULL, job_id, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'idle', waits_for
    FROM idle_lanes
) AS lanes
LEFT JOIN workers ON workers.id = lanes.worker_id
CROSS JOIN LATERAL (
    SELECT count(*) AS counted FROM (
        SELECT FROM jobs
        WHERE jobs.lock = lanes.lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        UNION ALL
        SELECT FROM waits WHERE waits.lock = lanes.lock
        LIMIT 1001) AS jobs
) AS behind
CROSS JOIN LATERAL (
    SELECT (found.job ->> 0)::bigint AS id, (found.job ->> 1)::job_status AS status
    FROM (SELECT (SELECT jobs FROM in_hand) 
        -> (coalesce(lanes.worker_id::text, '') || lanes.lock) AS job) AS found
) AS held
LEFT JOIN LATERAL (
    SELECT first.id, first.task, first.attempts, first.scheduled_at, first.errors,
           CASE WHEN first.worker_id IS NULL THEN first.status END AS status
    FROM live_jobs AS first
    WHERE first.id = CASE
        WHEN lanes.worker_id IS NOT NULL OR lanes.readers IS NOT NULL AND held.id IS NOT NULL
            THEN held.id
        -- Not lane_heads: inside a view, a function looks for tables on the reader's search_path.
        ELSE coalesce(lanes.job_id, (
            SELECT line.id FROM (
                (SELECT head.priority, head.id FROM jobs AS head
                 WHERE head.lock = lanes.lock
                     AND head.status IN ('todo', 'blocked', 'limited', 'paused')
                    AND head.lock IS NOT NULL AND head.keeps_lanes IS NULL
                 ORDER BY head.priority DESC, head.id LIMIT 1)
                UNION ALL
                (SELECT waits.priority, waits.id FROM waits WHERE waits.lock = lanes.lock
                 ORDER BY waits.priority DESC, waits.id LIMIT 1)
            ) AS line ORDER BY line.priority DESC, line.id LIMIT 1)) END
    LIMIT 1  -- so that no plan reads all jobs to join them
) AS job ON true
LEFT JOIN LATERAL (
    -- The time keeps this from reading every day of the history.
    SELECT finished.task, finished.errors FROM finished_jobs AS finished
    WHERE finished.id = lanes.failed_job_id
        AND finished.finished_at >= lanes.stopped_at - interval '1 day'
    ORDER BY finished.finished_at DESC
    LIMIT 1
) AS failed ON true
ORDER BY lanes.stopped IS NULL, lanes.stopped = 'paused', lanes.since;

COMMENT ON VIEW lane_status IS
    'Lanes that are held, reserved for a retry, paused, halted, delayed or idle.';
COMMENT ON COLUMN lane_status.lock IS 'The lock of the lane.';
COMMENT ON COLUMN lane_status.state IS
    'held: a worker has a job of it; retrying: reserved for one job; paused or halted: stopped; '
    'delayed: an open transaction has locked its next job; idle: free, but its next job waits for '
    'another lane.';
COMMENT ON COLUMN lane_status.since IS
    'Since when it is held or retrying or, if idle, its next job has been due.';
COMMENT ON COLUMN lane_status.job_id IS 'The job that its worker has, or that goes next.';
COMMENT ON COLUMN lane_status.job_status IS 'The status of that job.';
COMMENT ON COLUMN lane_status.task IS 'The task of that job.';
COMMENT ON COLUMN lane_status.attempts IS
    'Attempts of that job, including the one that it is claimed for.';
COMMENT ON COLUMN lane_status.due_at IS 'When that job is or was due; NULL: at once.';
COMMENT ON COLUMN lane_status.worker IS
    'The worker that holds the lane; NULL: none, or it is gone.';
COMMENT ON COLUMN lane_status.heartbeat_at IS 'When that worker last sent a heartbeat.';
COMMENT ON COLUMN lane_status.waiting IS 'Jobs that wait in the lane, at most 1000.';
COMMENT ON COLUMN lane_status.more IS 'True if more than 1000 wait.';
COMMENT ON COLUMN lane_status.last_error IS
    'The last error of that job or, if halted, of the failed one.';
COMMENT ON COLUMN lane_status.stopped IS
    'paused or halted, even while a job still runs; NULL: neither.';
COMMENT ON COLUMN lane_status.stopped_at IS 'Since when it is stopped.';
COMMENT ON COLUMN lane_status.stopped_until IS 'When it resumes by itself; NULL: never.';
COMMENT ON COLUMN lane_status.stopped_by IS
    'Who stopped it; on_failure: the policy of the failed job.';
COMMENT ON COLUMN lane_status.stop_reason IS 'The reason given.';
COMMENT ON COLUMN lane_status.failed_job_id IS 'If halted, the job that failed.';
COMMENT ON COLUMN lane_status.failed_task IS 'The task of the failed job.';
COMMENT ON COLUMN lane_status.readers IS
    'Jobs that share it, running or between attempts; NULL: none.';
COMMENT ON COLUMN lane_status.waits_for IS 'If idle, the first lane that its next job waits for.';
