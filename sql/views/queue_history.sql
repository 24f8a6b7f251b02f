-- How many jobs of each queue ended in each five minutes of the last day, and how fast they were.
-- It reads the rollup, not the history (see measure_history, which offers more).
CREATE OR REPLACE VIEW queue_history AS
SELECT at, name AS queue, succeeded, failed, cancelled, aborted,
       wait_p50, wait_p95, run_p50, run_p95
FROM measure_history(clock() - interval '1 day', p_minutes => 5, p_by => 'queue');

COMMENT ON VIEW queue_history IS
    'Jobs of each queue that ended in each five minutes of the last day, and how fast they were.';
COMMENT ON COLUMN queue_history.at IS 'When these five minutes began.';
COMMENT ON COLUMN queue_history.queue IS 'The name of the queue.';
COMMENT ON COLUMN queue_history.succeeded IS 'How many jobs have succeeded.';
COMMENT ON COLUMN queue_history.failed IS 'How many have failed for good.';
COMMENT ON COLUMN queue_history.cancelled IS 'How many were cancelled or expired.';
COMMENT ON COLUMN queue_history.aborted IS 'How many were aborted while they ran.';
COMMENT ON COLUMN queue_history.wait_p50 IS
    'Half of the jobs waited at most this long, as in task_status.';
COMMENT ON COLUMN queue_history.wait_p95 IS '19 of 20 jobs waited at most this long.';
COMMENT ON COLUMN queue_history.run_p50 IS 'Half of the jobs ran at most this long.';
COMMENT ON COLUMN queue_history.run_p95 IS '19 of 20 jobs ran at most this long.';
