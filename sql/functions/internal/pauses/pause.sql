-- Pauses a queue or a task. If it is paused already, this pause replaces the earlier one without a
-- gap, but keeps its reason if none is given. Waits for no job.
CREATE OR REPLACE FUNCTION pause(
    p_kind pause_kind, p_name text, p_reason text, p_until timestamptz, p_by text
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_settings();
    p_until := CASE WHEN p_until < '9999-01-01' THEN p_until END;   -- else until resumed
    IF p_until <= clock() THEN
        RAISE EXCEPTION 'until: a pause until % would already be over', p_until
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO pauses AS old (kind, name, paused_at, until, paused_by, reason)
    VALUES (p_kind, p_name, clock(), p_until, coalesce(p_by, session_user), p_reason)
    ON CONFLICT (kind, name) DO UPDATE
    SET paused_at = CASE WHEN old.until <= clock() THEN excluded.paused_at ELSE old.paused_at END,
        until = excluded.until, paused_by = excluded.paused_by,
        reason = coalesce(excluded.reason,
            CASE WHEN (old.until > clock()) IS NOT FALSE THEN old.reason END);
    PERFORM audit('pause-' || p_kind, coalesce(nullif(p_name, ''), '*'), 0, p_by, p_reason);
    -- Sleeping workers must learn when it ends.
    PERFORM notify_workers(NULL) WHERE p_until IS NOT NULL;
END $$;
