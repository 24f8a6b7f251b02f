-- Locks a lane until commit, for a change by a person. The lane gets a row if it has none, whoever
-- holds it. A worker that ends a job of the lane waits for us. A claim does not wait, and leaves
-- the lane alone. End with reopen_lane.
CREATE OR REPLACE FUNCTION lock_lane(p_lock text) RETURNS lanes
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes;
BEGIN
    PERFORM require_settings();
    PERFORM pg_advisory_xact_lock(lock_key('lane', p_lock));
    LOOP
        SELECT * INTO v_lane FROM lanes WHERE lock = p_lock FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO lanes (lock, since) VALUES (p_lock, clock()) ON CONFLICT DO NOTHING
            RETURNING * INTO v_lane;
        END IF;
        EXIT WHEN v_lane.lock IS NOT NULL;   -- else it appeared or vanished in between
    END LOOP;
    RETURN v_lane;
END $$;
