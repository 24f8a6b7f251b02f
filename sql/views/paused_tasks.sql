-- Paused tasks, the longest first.
CREATE OR REPLACE VIEW paused_tasks AS
SELECT name AS task, paused_at, until, paused_by, reason
FROM pauses
WHERE kind = 'task' AND (until > clock()) IS NOT FALSE
ORDER BY paused_at;

COMMENT ON VIEW paused_tasks IS 'Paused tasks, whose jobs do not start.';
COMMENT ON COLUMN paused_tasks.task IS 'The name of the task.';
COMMENT ON COLUMN paused_tasks.paused_at IS 'Since when it is paused.';
COMMENT ON COLUMN paused_tasks.until IS 'When it resumes by itself; NULL: never.';
COMMENT ON COLUMN paused_tasks.paused_by IS 'Who paused it.';
COMMENT ON COLUMN paused_tasks.reason IS 'The reason given.';
