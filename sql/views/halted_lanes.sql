-- Lanes that a failed job has halted, the longest first, at most 1,000. Nothing in them runs until
-- they are resumed.
CREATE OR REPLACE VIEW halted_lanes AS
SELECT lock, stopped_at, failed_job_id FROM lanes WHERE stopped = 'halted'
ORDER BY stopped_at LIMIT 1000;

COMMENT ON VIEW halted_lanes IS 'Lanes that a failed job has halted, the longest first.';
COMMENT ON COLUMN halted_lanes.lock IS 'The lock of the lane.';
COMMENT ON COLUMN halted_lanes.stopped_at IS
    'When the job failed, or when the lane was paused before that.';
COMMENT ON COLUMN halted_lanes.failed_job_id IS 'The job that failed.';
