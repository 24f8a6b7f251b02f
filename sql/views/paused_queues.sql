-- Paused queues, the longest first.
CREATE OR REPLACE VIEW paused_queues AS
SELECT nullif(name, '') AS queue, paused_at, until, paused_by, reason
FROM pauses
WHERE kind = 'queue' AND (until > clock()) IS NOT FALSE
ORDER BY paused_at;

COMMENT ON VIEW paused_queues IS 'Paused queues, in which no job starts.';
COMMENT ON COLUMN paused_queues.queue IS 'The name of the queue; NULL: all queues.';
COMMENT ON COLUMN paused_queues.paused_at IS 'Since when it is paused.';
COMMENT ON COLUMN paused_queues.until IS 'When it resumes by itself; NULL: never.';
COMMENT ON COLUMN paused_queues.paused_by IS 'Who paused it.';
COMMENT ON COLUMN paused_queues.reason IS 'The reason given.';
