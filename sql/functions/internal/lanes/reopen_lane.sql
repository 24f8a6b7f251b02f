-- Puts a lane in order after a change by a person. The next job becomes a token, even beside
-- readers if it can share the lane. A lane row that is no longer needed is given back. If an open
-- transaction has the next job locked, claims look at the lane again later.
CREATE OR REPLACE FUNCTION reopen_lane(p_lock text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes;
BEGIN
    SELECT * INTO v_lane FROM lanes WHERE lock = p_lock;
    IF v_lane.worker_id IS NOT NULL OR v_lane.stopped IS NOT NULL THEN
        RETURN;
    ELSIF v_lane.readers IS NOT NULL THEN
        UPDATE lanes SET look_at = NULL WHERE lock = p_lock AND look_at IS NOT NULL;
        PERFORM notify_workers(wake_readers(ARRAY[p_lock], p_kept => true));
    ELSIF v_lane.job_id IS NULL THEN
        PERFORM notify_workers(release_lanes(ARRAY[p_lock]));
    ELSIF EXISTS (SELECT FROM jobs WHERE id = v_lane.job_id
        AND status = 'blocked' AND NOT try_lock_job(id)) THEN
        UPDATE lanes SET look_at = next_look_at(since) WHERE lock = p_lock;
    ELSE
        UPDATE jobs SET status = 'todo' WHERE id = v_lane.job_id AND status = 'blocked';
        UPDATE lanes SET look_at = NULL WHERE lock = p_lock AND look_at IS NOT NULL;
        PERFORM notify_workers(NULL);
    END IF;
END $$;
