-- One row for each task whose jobs ended in the last hour: how many, how fast, and how they ended.
-- It reads the rollup, not the history, so it is a minute or two late (see measure_history).
CREATE OR REPLACE VIEW task_status AS
SELECT name AS task, succeeded, failed, cancelled, aborted,
       round(60 * (succeeded + failed + cancelled + aborted)
           / extract(epoch FROM clock() - at)::numeric, 2) AS per_minute,
       round(failed::numeric / nullif(succeeded + failed, 0), 4) AS failed_share,
       wait_p50, wait_p95, run_p50, run_p95
FROM measure_history(clock() - interval '1 hour', p_by => 'task')
ORDER BY succeeded + failed + cancelled + aborted DESC, name;

COMMENT ON VIEW task_status IS
    'Tasks: how many of their jobs ended in the last hour, how, and how fast they were.';
COMMENT ON COLUMN task_status.task IS 'The name of the task.';
COMMENT ON COLUMN task_status.succeeded IS 'How many jobs have succeeded.';
COMMENT ON COLUMN task_status.failed IS 'How many have failed for good.';
COMMENT ON COLUMN task_status.cancelled IS 'How many were cancelled or expired.';
COMMENT ON COLUMN task_status.aborted IS 'How many were aborted while they ran.';
COMMENT ON COLUMN task_status.per_minute IS 'How many of all these ended per minute.';
COMMENT ON COLUMN task_status.failed_share IS
    'The share of failed jobs among those that succeeded or failed; NULL: none did.';
COMMENT ON COLUMN task_status.wait_p50 IS
    'Half of the jobs were claimed, for their last attempt, at most this long after they were '
    'due. Off by a factor of 1.41 at most.';
COMMENT ON COLUMN task_status.wait_p95 IS '19 of 20 jobs waited at most this long.';
COMMENT ON COLUMN task_status.run_p50 IS
    'Half of the jobs ran at most this long, counted from the last claim.';
COMMENT ON COLUMN task_status.run_p95 IS '19 of 20 jobs ran at most this long.';
