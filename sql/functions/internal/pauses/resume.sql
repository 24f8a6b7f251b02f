-- Ends the pause of a queue or a task. Returns false if it was not paused. However many jobs wait
-- for the end of the pause, it only leaves a row for the next claims (see end_pauses).
CREATE OR REPLACE FUNCTION resume(p_kind pause_kind, p_name text, p_by text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_pause pauses;
BEGIN
    PERFORM require_settings();
    DELETE FROM pauses
    WHERE kind = p_kind AND name = p_name AND (until > clock()) IS NOT FALSE
    RETURNING * INTO v_pause;
    IF v_pause.name IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO gate_looks (key, left_at) SELECT task_gate(p_name), clock() WHERE p_kind = 'task';
    PERFORM audit('resume-' || p_kind, coalesce(nullif(p_name, ''), '*'), 0, p_by, v_pause.reason);
    PERFORM notify_workers(NULL);
    RETURN true;
END $$;
