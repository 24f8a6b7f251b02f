-- Jobs that stay pending because a job that they come after has failed (on_parent => 'hold'), the
-- oldest first, at most 1,000. A parent that was retried counts like any other.
--
-- Bounded: it looks at the first 10,000 pending jobs.
CREATE OR REPLACE VIEW failed_parents AS
SELECT job.id AS job_id, job.queue::text, job.task::text, job.lock::text, job.created_at,
       edge.parent AS parent_id
FROM (
    SELECT id, queue, task, lock, created_at FROM jobs
    WHERE status = 'pending' ORDER BY scheduled_at LIMIT 10000
) AS job
CROSS JOIN LATERAL (
    SELECT edges.parent FROM edges WHERE edges.child = job.id AND edges.failed
        AND NOT EXISTS (SELECT FROM jobs AS parent WHERE parent.id = edges.parent)
    ORDER BY edges.parent LIMIT 1
) AS edge
ORDER BY job.id LIMIT 1000;

COMMENT ON VIEW failed_parents IS
    'Jobs that stay pending because a job that they come after has failed.';
COMMENT ON COLUMN failed_parents.job_id IS 'The job that waits.';
COMMENT ON COLUMN failed_parents.queue IS 'Its queue.';
COMMENT ON COLUMN failed_parents.task IS 'Its task.';
COMMENT ON COLUMN failed_parents.lock IS 'The lane that it will enter; NULL: none.';
COMMENT ON COLUMN failed_parents.created_at IS 'When it was deferred.';
COMMENT ON COLUMN failed_parents.parent_id IS 'The first job that failed.';
