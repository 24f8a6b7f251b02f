-- Leaves a lane in order after a change from outside: a job that goes next is a token, and a lane that nothing keeps others
-- out of is given back.
CREATE OR REPLACE FUNCTION settle_lane(p_lock text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes;
BEGIN
    SELECT * INTO v_lane FROM lanes WHERE lock = p_lock;
    IF v_lane.worker_id IS NOT NULL OR v_lane.stopped IS NOT NULL THEN
        RETURN;
    ELSIF v_lane.job_id IS NULL THEN
        PERFORM wake(release_lanes(ARRAY[p_lock]));
    ELSE
        UPDATE jobs SET status = 'todo' WHERE id = v_lane.job_id AND status = 'blocked';
        PERFORM wake(NULL);
    END IF;
END $$;
