-- Paused lanes, the longest first, at most 1,000.
CREATE OR REPLACE VIEW paused_lanes AS
SELECT lock, stopped_at, stopped_until, stopped_by, stop_reason FROM lanes
WHERE stopped = 'paused' AND (stopped_until IS NULL OR stopped_until > clock())
ORDER BY stopped_at LIMIT 1000;

COMMENT ON VIEW paused_lanes IS 'Paused lanes, the longest first.';
COMMENT ON COLUMN paused_lanes.lock IS 'The lock of the lane.';
COMMENT ON COLUMN paused_lanes.stopped_at IS 'Since when it is stopped.';
COMMENT ON COLUMN paused_lanes.stopped_until IS 'When it resumes by itself; NULL: never.';
COMMENT ON COLUMN paused_lanes.stopped_by IS 'Who paused it.';
COMMENT ON COLUMN paused_lanes.stop_reason IS 'The reason given.';
