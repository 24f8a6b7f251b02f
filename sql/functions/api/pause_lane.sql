-- pause_lane: no job of the lane starts until the given time, or until somebody resumes the lane. A
-- running job may end. If the lane is paused already, this pause replaces the earlier one. If you
-- give no reason, the earlier one stays. Returns false if the lane is halted. It then stays as it
-- was.
CREATE OR REPLACE FUNCTION pause_lane(
    p_lock text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL,
    p_by text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lane lanes := lock_lane(p_lock);
BEGIN
    IF v_lane.stopped = 'halted' THEN
        RETURN false;
    END IF;
    IF p_until <= clock() THEN
        RAISE EXCEPTION 'a pause until % would already be over', p_until
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
