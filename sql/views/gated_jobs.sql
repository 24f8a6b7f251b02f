-- The jobs that wait at a gate: for a slot or a token of their limit, or for the end of a pause of
-- their task. With a condition on `gate`, only the jobs of this gate are read. In the order of
-- gates, limits come before tasks.
CREATE OR REPLACE VIEW gated_jobs AS
SELECT CASE WHEN status = 'paused' THEN 'task:' || task ELSE 'limit:' || limit_key END AS gate,
    id, queue::text, task::text, lock::text, priority,
    was_attempted AND on_retry = 'hold' AND lock IS NOT NULL AS is_awaited,
    coalesce(scheduled_at, created_at) AS since, locks, shared, keeps_lanes
FROM jobs
WHERE status IN ('limited', 'paused');

COMMENT ON VIEW gated_jobs IS
    'Jobs that wait for their limit, or for the end of a pause of their task.';
COMMENT ON COLUMN gated_jobs.gate IS
    'What it waits for: limit: and the key of its limit, or task: and its task.';
COMMENT ON COLUMN gated_jobs.id IS 'The job.';
COMMENT ON COLUMN gated_jobs.queue IS 'Its queue.';
COMMENT ON COLUMN gated_jobs.task IS 'Its task.';
COMMENT ON COLUMN gated_jobs.lock IS 'Its lock, which names its lane; NULL: none.';
COMMENT ON COLUMN gated_jobs.priority IS 'Higher goes first.';
COMMENT ON COLUMN gated_jobs.is_awaited IS
    'True if its lane waits for its retry. It passes the gate first.';
COMMENT ON COLUMN gated_jobs.since IS 'Since when it has been due.';
COMMENT ON COLUMN gated_jobs.locks IS 'All of its locks, if several or shared; otherwise NULL.';
COMMENT ON COLUMN gated_jobs.shared IS 'The locks of lanes that it shares; NULL: none.';
COMMENT ON COLUMN gated_jobs.keeps_lanes IS
    'True if it keeps its several lanes for its retry; else NULL.';
