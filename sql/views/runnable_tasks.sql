-- Queues and tasks of jobs that could start, or are due within a minute: a worker that does not
-- know a task tries its job again half a minute later. Bounded: it looks at the first 1,000 jobs
-- that could start, without a lock, with one, and with a group, in each queue that a worker serves,
-- and at the first 10,000 that are due within a minute.
CREATE OR REPLACE VIEW runnable_tasks AS
WITH served AS MATERIALIZED (
    SELECT queue FROM queue_status WHERE workers > 0
)
SELECT queue, task::text FROM (
    SELECT served.queue, job.task FROM served CROSS JOIN LATERAL (
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
           AND jobs.queue = served.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
           AND jobs.queue = served.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT task FROM jobs
         WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue = served.queue
         ORDER BY jobs.queue LIMIT 1000)
    ) AS job
    UNION
    SELECT queue, task FROM (
        SELECT queue, task FROM jobs
        WHERE status = 'scheduled' AND scheduled_at <= clock() + interval '1 minute'
        ORDER BY scheduled_at LIMIT 10000
    ) AS due WHERE queue IN (SELECT queue FROM served)
) AS waiting
ORDER BY queue, task;

COMMENT ON VIEW runnable_tasks IS 'Tasks of the jobs that go next in queues that a worker serves.';
COMMENT ON COLUMN runnable_tasks.queue IS 'The queue of the jobs.';
COMMENT ON COLUMN runnable_tasks.task IS 'Their task.';
