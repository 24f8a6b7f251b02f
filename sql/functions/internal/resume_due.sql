-- Ends the pauses whose time is over, and looks again at lanes whose next job was locked, and at
-- keys for which a token has come. Bounded. It waits for nobody.
CREATE OR REPLACE FUNCTION resume_due(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lane record;
    v_key  text;
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
    FOR v_key IN
        SELECT key FROM limit_keys WHERE look_at <= clock() ORDER BY look_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM notify_workers(wake_limited(ARRAY[v_key]));
    END LOOP;
END $$;
