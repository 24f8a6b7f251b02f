-- Keys of limits whose counts reconcile has repaired in the last day, the newest first. It looks at
-- no more than the last 10,000 entries of the audit.
CREATE OR REPLACE VIEW repaired_limits AS
SELECT lock AS key, at FROM (SELECT * FROM lane_audit ORDER BY id DESC LIMIT 10000) AS newest
WHERE operation = 'reconcile-limit' AND at > clock() - interval '1 day'
ORDER BY id DESC;

COMMENT ON VIEW repaired_limits IS
    'Keys of limits whose counts reconcile has repaired in the last day.';
COMMENT ON COLUMN repaired_limits.key IS 'The key.';
COMMENT ON COLUMN repaired_limits.at IS 'When it was repaired.';
