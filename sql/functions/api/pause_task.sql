-- pause_task: starts no job of the task until the given time, or until it is resumed. Jobs that
-- workers have already claimed still run. A lane whose next job is of the task waits, whatever its
-- other jobs are. The task need not have jobs or be known. If it is already paused, this pause
-- replaces the earlier one without a gap, but keeps its reason if you give none.
--
-- Waits for no job, and only for a moment for a claim that is waking jobs of the task.
CREATE OR REPLACE FUNCTION pause_task(
    p_task text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL,
    p_by text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM require_read_committed();
    IF (octet_length(p_task) BETWEEN 1 AND 512) IS NOT TRUE THEN
        RAISE EXCEPTION 'task: give a name of 1 to 512 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF p_until <= clock() THEN
        RAISE EXCEPTION 'a pause until % would already be over', p_until
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO task_pauses AS old (task, paused_at, until, paused_by, reason)
    VALUES (p_task, clock(), p_until, coalesce(p_by, session_user), p_reason)
    ON CONFLICT (task) DO UPDATE
    -- If the earlier pause is over, jobs may still be set aside, and stay there.
    SET paused_at = CASE WHEN old.until <= clock() THEN excluded.paused_at ELSE old.paused_at END,
        until = excluded.until, paused_by = excluded.paused_by, look_at = NULL,
        reason = coalesce(excluded.reason,
            CASE WHEN (old.until > clock()) IS NOT FALSE THEN old.reason END);
    PERFORM audit('pause-task', p_task, 0, p_by, p_reason);
    -- Sleeping workers must learn when it ends.
    PERFORM notify_workers(NULL) WHERE p_until IS NOT NULL;
END $$;
