-- How many jobs of each task ended in each five minutes of the last day, and how fast they were. It
-- reads the rollup, not the history (see measure_history, which offers more).
CREATE OR REPLACE VIEW task_history AS
SELECT at, name AS task, succeeded, failed, cancelled, aborted,
       wait_p50, wait_p95, run_p50, run_p95
FROM measure_history(clock() - interval '1 day', p_minutes => 5, p_by => 'task');

COMMENT ON VIEW task_history IS
    'Jobs of each task that ended in each five minutes of the last day, and how fast they were.';
COMMENT ON COLUMN task_history.at IS 'When these five minutes began.';
COMMENT ON COLUMN task_history.task IS 'The name of the task.';
COMMENT ON COLUMN task_history.succeeded IS 'How many jobs have succeeded.';
COMMENT ON COLUMN task_history.failed IS 'How many have failed for good.';
COMMENT ON COLUMN task_history.cancelled IS 'How many were cancelled or expired.';
COMMENT ON COLUMN task_history.aborted IS 'How many were aborted while they ran.';
COMMENT ON COLUMN task_history.wait_p50 IS
    'Half of the jobs waited at most this long, as in task_status.';
COMMENT ON COLUMN task_history.wait_p95 IS '19 of 20 jobs waited at most this long.';
COMMENT ON COLUMN task_history.run_p50 IS 'Half of the jobs ran at most this long.';
COMMENT ON COLUMN task_history.run_p95 IS '19 of 20 jobs ran at most this long.';
