-- Repairs a stranded lane, after checking again with the lane locked, in case it has moved. Never
-- waits. A lane that another session is working on is left for the next time.
CREATE OR REPLACE FUNCTION repair_lane(p_lock text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lane  lanes;
    v_found boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock_key('lane', p_lock)) THEN
        RETURN;
    END IF;
    PERFORM FROM lanes WHERE lock = p_lock FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM lanes WHERE lock = p_lock) THEN
        RETURN;
    END IF;
    v_lane := lock_lane(p_lock);
    -- If lock_lane has just made the row, no worker holds the lane.
    v_found := lane_is_stranded(p_lock);
    IF line_is_wrong(p_lock) THEN
        PERFORM mend_line(p_lock);
        PERFORM audit('reconcile', p_lock, 1, 'inturn', 'line');
    ELSIF v_found THEN
        UPDATE lanes SET worker_id = NULL, job_id = NULL,
            readers = CASE WHEN readers IS NOT NULL THEN count_readers(p_lock) END
        WHERE lock = p_lock;
        PERFORM audit('reconcile', p_lock, 1, 'inturn', coalesce(v_lane.state::text, 'no token'));
    END IF;
    PERFORM reopen_lane(p_lock);
END $$;
