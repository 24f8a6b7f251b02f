-- Live and finished jobs together, for people.
CREATE OR REPLACE VIEW all_jobs AS
SELECT id, status, queue, task, lock, priority, attempts, args, errors,
       created_at, scheduled_at, started_at, NULL::timestamptz AS finished_at, worker_id, fence,
           queueing_lock, timeout,
       NULL::jsonb AS result
FROM jobs
UNION ALL
SELECT id, status, queue, task, lock, priority, attempts, args, errors,
       created_at, scheduled_at, started_at, finished_at, worker_id, fence, queueing_lock, timeout,
           result
FROM finished_jobs;

COMMENT ON VIEW all_jobs IS 'Every job, live and finished.';
