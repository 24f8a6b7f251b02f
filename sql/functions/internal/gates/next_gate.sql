-- Returns the gate that a job must pass before it starts, or NULL if it has none: that of its task
-- if the task is paused, else that of its limit.
CREATE OR REPLACE FUNCTION next_gate(p_is_paused boolean, p_task text, p_limit_key text)
    RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_is_paused THEN task_gate(p_task) ELSE limit_gate(p_limit_key) END
$$;
