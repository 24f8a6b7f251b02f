-- Lanes that reconcile has repaired in the last day, the newest first. It looks at no more than the
-- last 10,000 entries of the audit.
CREATE OR REPLACE VIEW repaired_lanes AS
SELECT lock, at FROM (SELECT * FROM lane_audit ORDER BY id DESC LIMIT 10000) AS newest
WHERE operation = 'reconcile' AND at > clock() - interval '1 day'
ORDER BY id DESC;

COMMENT ON VIEW repaired_lanes IS 'Lanes that reconcile has repaired in the last day.';
COMMENT ON COLUMN repaired_lanes.lock IS 'The lock of the lane.';
COMMENT ON COLUMN repaired_lanes.at IS 'When it was repaired.';
