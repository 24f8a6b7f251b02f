-- Returns a command that lets a job of this queue and task start. If workers serve the queue but
-- none knows the task, the deployment comes first: they would only put the job back. Otherwise,
-- p_condition comes first.
CREATE OR REPLACE FUNCTION once_known(
    p_queue text, p_task text, p_command text, p_condition text DEFAULT '') RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM explain_workers(p_queue, p_task, true) AS found
        WHERE found.reason = 'task unknown'
    ) THEN 'deploy the code of its task, then: ' ELSE p_condition END || p_command
$$;
