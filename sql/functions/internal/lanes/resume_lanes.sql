-- Ends expired pauses of lanes, and looks again at lanes whose next job was locked. Bounded. Never
-- waits. Returns how many lanes it has looked at.
CREATE OR REPLACE FUNCTION resume_lanes(p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_lane  record;
    v_count integer := 0;
BEGIN
    FOR v_lane IN
        SELECT lock, look_at FROM lanes WHERE coalesce(look_at, stopped_until) <= clock()
        ORDER BY coalesce(look_at, stopped_until) LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        v_count := v_count + 1;
        IF v_lane.look_at IS NULL THEN
            PERFORM clear_stop(v_lane.lock);
        ELSE
            PERFORM reopen_lane(v_lane.lock);
        END IF;
    END LOOP;
    RETURN v_count;
END $$;
