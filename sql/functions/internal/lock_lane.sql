-- Makes a lane ours for a change from outside: its row is there, and locked until commit, whoever holds it. A worker that
-- ends a job of it waits for us; a claim does not, it leaves the lane alone. End with reopen_lane.
CREATE OR REPLACE FUNCTION lock_lane(p_lock text) RETURNS lanes
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes;
BEGIN
    PERFORM require_read_committed();
    PERFORM pg_advisory_xact_lock(lane_key(p_lock));
    LOOP
        SELECT * INTO v_lane FROM lanes WHERE lock = p_lock FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO lanes (lock, since) VALUES (p_lock, clock()) ON CONFLICT DO NOTHING RETURNING * INTO v_lane;
        END IF;
        EXIT WHEN v_lane.lock IS NOT NULL;   -- else it came or went between the two statements
    END LOOP;
    RETURN v_lane;
END $$;
