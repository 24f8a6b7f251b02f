-- Queues and tasks of waiting jobs, if no live worker of the queue knows the task. A worker that
-- does not know a task tries the job again half a minute later, so jobs that are due soon count.
-- Bounded: it looks at the first 1,000 jobs that could start, without a lock, with one, and with a
-- group, in each queue that a worker serves, and at the first 10,000 that are due within a minute.
CREATE OR REPLACE VIEW unknown_tasks AS
WITH served AS MATERIALIZED (
    SELECT queue FROM queue_status WHERE workers > 0
), waiting AS MATERIALIZED (
    SELECT DISTINCT served.queue, job.task FROM served CROSS JOIN LATERAL (
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
), live AS MATERIALIZED (
    SELECT queues, tasks FROM workers
    WHERE heartbeat_at > clock() - greatest(interval '30 seconds', 3 * heartbeat_every)
)
SELECT queue, task::text FROM waiting
WHERE NOT EXISTS (
    SELECT FROM live
    WHERE (queues IS NULL OR waiting.queue = ANY (queues))
      AND (tasks IS NULL OR waiting.task = ANY (tasks))
)
ORDER BY queue, task;

COMMENT ON VIEW unknown_tasks IS 'Tasks of waiting jobs that no live worker knows.';
COMMENT ON COLUMN unknown_tasks.queue IS 'The queue of the jobs.';
COMMENT ON COLUMN unknown_tasks.task IS 'Their task.';
