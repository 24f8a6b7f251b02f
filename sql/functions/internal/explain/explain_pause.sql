-- Returns the pauses that keep jobs of this queue and task from starting.
CREATE OR REPLACE FUNCTION explain_pause(p_queue text, p_task text)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT pause.keyword,
        pause.what || ' been paused by ' || pause.paused_by || ' since ' || pause.paused_at
            || coalesce(' until ' || pause.until, '') || coalesce(': ' || pause.reason, ''),
        pause.command
    FROM (
        SELECT 'queue paused' AS keyword, queue AS name,
            coalesce('queue ' || queue || ' has', 'all queues have') AS what,
            'queue queues resume ' || coalesce(shell_argument(queue), '--all') AS command,
            paused_by, paused_at, until, reason
        FROM paused_queues WHERE coalesce(queue, p_queue) = p_queue
        UNION ALL
        SELECT 'task paused', task, 'task ' || task || ' has',
            'queue tasks resume ' || shell_argument(task), paused_by, paused_at, until, reason
        FROM paused_tasks WHERE task = p_task
    ) AS pause
    ORDER BY pause.keyword, pause.name NULLS FIRST
$$;
