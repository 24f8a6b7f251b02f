-- Queues and tasks of waiting jobs, if no live worker of the queue knows the task. Bounded: it
-- looks at the first 1,000 jobs that could start, without and with a lock, in each queue that a
-- worker serves.
CREATE OR REPLACE VIEW unknown_tasks AS
WITH served AS MATERIALIZED (
    SELECT queue FROM queue_status WHERE workers > 0
), waiting AS MATERIALIZED (
    SELECT DISTINCT served.queue, job.task FROM served CROSS JOIN LATERAL (
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND jobs.queue = served.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND jobs.queue = served.queue
         ORDER BY priority DESC, id LIMIT 1000)
    ) AS job
), live AS MATERIALIZED (
    SELECT queues, tasks FROM workers WHERE heartbeat_at > clock() - interval '30 seconds'
)
SELECT queue, task FROM waiting
WHERE NOT EXISTS (
    SELECT FROM live
    WHERE (queues IS NULL OR waiting.queue = ANY (queues))
      AND (tasks IS NULL OR waiting.task = ANY (tasks))
)
ORDER BY queue, task;

COMMENT ON VIEW unknown_tasks IS 'Tasks of waiting jobs that no live worker knows.';
COMMENT ON COLUMN unknown_tasks.queue IS 'The queue of the jobs.';
COMMENT ON COLUMN unknown_tasks.task IS 'Their task.';
