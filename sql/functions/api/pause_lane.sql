-- pause_lane: starts no job of the lane until the given time, or until the lane is resumed. A
-- running job may finish. If the lane is already paused, this pause replaces the earlier one, but
-- keeps its reason if you give none. Returns false if the lane is halted, and leaves it as it was.
CREATE OR REPLACE FUNCTION pause_lane(
    p_lock text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL,
    p_by text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes := lock_lane(p_lock);
BEGIN
    IF v_lane.stopped = 'halted' THEN
        RETURN false;
    END IF;
    p_until := CASE WHEN p_until < '9999-01-01' THEN p_until END;   -- else until resumed
    IF p_until <= clock() THEN
        RAISE EXCEPTION 'until: a pause until % would already be over', p_until
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE lanes
    SET stopped = 'paused', stopped_at = coalesce(stopped_at, clock()), stopped_until = p_until,
        look_at = NULL, stopped_by = coalesce(p_by, session_user),
        stop_reason = coalesce(p_reason, stop_reason)
    WHERE lock = p_lock;
    PERFORM audit('pause', p_lock, 0, p_by, p_reason);
    -- sleeping workers must learn when it ends
    PERFORM notify_workers(NULL) WHERE p_until IS NOT NULL;
    RETURN true;
END $$;
