-- Returns the pauses that keep jobs of this queue and task from starting.
CREATE OR REPLACE FUNCTION explain_pause(p_queue text, p_task text)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT pause.reason,
        pause.what || ' been paused by ' || pause.paused_by || ' since ' || pause.paused_at
            || coalesce(' until ' || pause.until, '') || coalesce(': ' || pause.why, ''),
        pause.command
    FROM (
        SELECT 'queue paused' AS reason,
            CASE queue WHEN '' THEN 'all queues have' ELSE 'queue ' || queue || ' has' END AS what,
            'queue queues resume '
                || CASE queue WHEN '' THEN '--all' ELSE shell_argument(queue) END AS command,
            queue AS name, paused_by, paused_at, until, queue_pauses.reason AS why
        FROM queue_pauses WHERE queue IN (p_queue, '')
        UNION ALL
        SELECT 'task paused', 'task ' || task || ' has',
            'queue tasks resume ' || shell_argument(task),
            task, paused_by, paused_at, until, task_pauses.reason
        FROM task_pauses WHERE task = p_task
    ) AS pause
    WHERE (pause.until > clock()) IS NOT FALSE
    ORDER BY pause.reason, pause.name
$$;
