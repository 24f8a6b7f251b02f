-- Queues and tasks of waiting jobs that no live worker of the queue knows. It looks at as many jobs
-- as runnable_tasks.
CREATE OR REPLACE VIEW unknown_tasks AS
WITH live AS MATERIALIZED (
    SELECT queues, tasks FROM workers
    WHERE heartbeat_at > clock() - greatest(interval '30 seconds', 3 * heartbeat_every)
)
SELECT queue, task FROM runnable_tasks AS waiting
WHERE NOT EXISTS (
    SELECT FROM live
    WHERE (queues IS NULL OR waiting.queue = ANY (queues))
      AND (tasks IS NULL OR waiting.task = ANY (tasks))
)
ORDER BY queue, task;

COMMENT ON VIEW unknown_tasks IS 'Tasks of waiting jobs that no live worker knows.';
COMMENT ON COLUMN unknown_tasks.queue IS 'The queue of the jobs.';
COMMENT ON COLUMN unknown_tasks.task IS 'Their task.';
