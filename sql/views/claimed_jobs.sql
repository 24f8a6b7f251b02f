-- The jobs that workers have claimed, and which of them are running. The server is not told when a
-- job gets its slot. But a worker starts its jobs in the order of their claims, and runs at most
-- `concurrency` at once, so those claimed first are running and the others wait for a slot.
--
-- Bounded: a worker has at most 1,000 jobs besides those that it runs. If you filter by
-- `worker_id`, only this worker's jobs are read.
CREATE OR REPLACE VIEW claimed_jobs AS
SELECT jobs.id,
       CASE WHEN row_number() OVER (
                PARTITION BY jobs.worker_id ORDER BY jobs.started_at, jobs.priority DESC, jobs.id
            ) > workers.concurrency THEN 'claimed'::job_status ELSE 'doing' END AS status,
       jobs.queue::text, jobs.task::text, jobs.lock::text, jobs.priority, jobs.attempts,
       jobs.started_at AS claimed_at, jobs.timeout::interval, jobs.worker_id,
       workers.name AS worker, jobs.locks, jobs.shared
FROM jobs LEFT JOIN workers ON workers.id = jobs.worker_id
WHERE jobs.status = 'doing';

COMMENT ON VIEW claimed_jobs IS 'Jobs that workers have claimed, running or waiting for a slot.';
COMMENT ON COLUMN claimed_jobs.id IS 'The job.';
COMMENT ON COLUMN claimed_jobs.status IS
    'doing: it runs, or its worker is gone; claimed: its worker runs others first.';
COMMENT ON COLUMN claimed_jobs.queue IS 'Its queue.';
COMMENT ON COLUMN claimed_jobs.task IS 'Its task.';
COMMENT ON COLUMN claimed_jobs.lock IS 'Its lock, which names its lane; NULL: none.';
COMMENT ON COLUMN claimed_jobs.priority IS 'Higher goes first.';
COMMENT ON COLUMN claimed_jobs.attempts IS 'Which attempt this is, counted from 1.';
COMMENT ON COLUMN claimed_jobs.claimed_at IS
    'When the worker claimed it, to start once a slot is free.';
COMMENT ON COLUMN claimed_jobs.timeout IS 'How long a run may take; NULL: no limit.';
COMMENT ON COLUMN claimed_jobs.worker_id IS 'The worker that has it.';
COMMENT ON COLUMN claimed_jobs.worker IS 'The name of its worker; NULL: the worker is gone.';
COMMENT ON COLUMN claimed_jobs.locks IS 'All of its locks, if several or shared; otherwise NULL.';
COMMENT ON COLUMN claimed_jobs.shared IS 'The locks of lanes that it shares; NULL: none.';
