-- Ends the pauses whose time is over. Bounded, and waits for nobody.
CREATE OR REPLACE FUNCTION resume_due(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lock text;
BEGIN
    FOR v_lock IN
        SELECT lock FROM lanes WHERE stopped_until <= clock() ORDER BY stopped_until LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM unstop_lane(v_lock);
    END LOOP;
END $$;
