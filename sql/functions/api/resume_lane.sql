-- resume_lane: lets a paused or halted lane continue. The failed job stays failed. Returns false if
-- the lane was not stopped.
CREATE OR REPLACE FUNCTION resume_lane(p_lock text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes := lock_lane(p_lock);
BEGIN
    PERFORM clear_stop(p_lock);
    IF v_lane.stopped IS NOT NULL THEN
        PERFORM audit('resume', p_lock, 0, p_by, v_lane.stop_reason);
    END IF;
    RETURN v_lane.stopped IS NOT NULL;
END $$;
