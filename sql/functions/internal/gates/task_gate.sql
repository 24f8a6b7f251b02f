-- Returns the gate at which jobs of this task wait while the task is paused.
CREATE OR REPLACE FUNCTION task_gate(p_task text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT 'task:' || p_task
$$;
