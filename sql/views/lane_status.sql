-- One row for each lane that something keeps others out of: who has it or stopped it, since when, the job that runs or goes
-- next, and how many wait. Stopped ones first. Counting stops at 1,000.
CREATE OR REPLACE VIEW lane_status AS
SELECT lanes.lock, lanes.state, lanes.since,
       job.id AS job_id, job.task, job.attempts, job.scheduled_at AS due_at,
       workers.name AS worker, workers.heartbeat_at,
       (SELECT count(*) FROM (
            SELECT FROM jobs WHERE jobs.lock = lanes.lock AND jobs.status IN ('todo', 'blocked') AND jobs.lock IS NOT NULL
            LIMIT 1000) AS behind) AS waiting,
       job.errors -> -1 ->> 'error' AS last_error,
       lanes.stopped, lanes.stopped_at, lanes.stopped_until, lanes.stopped_by, lanes.stop_reason
FROM lanes
LEFT JOIN workers ON workers.id = lanes.worker_id
LEFT JOIN LATERAL (
    SELECT * FROM jobs WHERE lanes.worker_id IS NOT NULL
        AND jobs.status = 'doing' AND jobs.worker_id = lanes.worker_id AND jobs.lock = lanes.lock
    UNION ALL
    SELECT * FROM jobs WHERE lanes.worker_id IS NULL AND jobs.id = coalesce(
        lanes.job_id, (SELECT head.id FROM lane_heads(ARRAY[lanes.lock]) AS head))
) AS job ON true
ORDER BY lanes.stopped IS NULL, lanes.since;

COMMENT ON VIEW lane_status IS 'Lanes that are held, reserved for a retry, paused or halted.';
COMMENT ON COLUMN lane_status.job_id IS 'The job that runs, else the one that goes next.';
COMMENT ON COLUMN lane_status.waiting IS 'Jobs that wait in the lane, 1000 if there are more.';
