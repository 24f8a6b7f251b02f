-- Tasks that somebody has paused, those that have been paused for longest first.
CREATE OR REPLACE VIEW paused_tasks AS
SELECT task::text, paused_at, until, paused_by, reason
FROM task_pauses
WHERE (until > clock()) IS NOT FALSE
ORDER BY paused_at;

COMMENT ON VIEW paused_tasks IS 'Tasks of which no job starts, because somebody has paused them.';
COMMENT ON COLUMN paused_tasks.task IS 'The name of the task.';
COMMENT ON COLUMN paused_tasks.paused_at IS 'Since when it is paused.';
COMMENT ON COLUMN paused_tasks.until IS
    'When it resumes by itself; NULL: it stays paused until you resume it.';
COMMENT ON COLUMN paused_tasks.paused_by IS 'Who paused it.';
COMMENT ON COLUMN paused_tasks.reason IS 'Why, in words.';
