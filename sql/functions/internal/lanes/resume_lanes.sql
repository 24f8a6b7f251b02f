-- Ends expired pauses of lanes, and looks again at lanes whose next job was locked. Bounded. Never
-- waits.
CREATE OR REPLACE FUNCTION resume_lanes(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lane record;
BEGIN
    FOR v_lane IN
        SELECT lock, look_at FROM lanes WHERE coalesce(look_at, stopped_until) <= clock()
        ORDER BY coalesce(look_at, stopped_until) LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        IF v_lane.look_at IS NULL THEN
            PERFORM clear_stop(v_lane.lock);
        ELSE
            PERFORM reopen_lane(v_lane.lock);
        END IF;
    END LOOP;
END $$;
