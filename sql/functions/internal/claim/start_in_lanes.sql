-- Starts a job that has `locks`, if it can win all of its lanes and is the head of each. Otherwise
-- gives back what it has won, and blocks the job if something is sure to wake it. Never waits.
-- Reserves no lane for a job that waits for another: two of them could wait for each other.
--
-- Returns the job if it has started. Otherwise, if claims would meet it again, returns the lane
-- that it lost, or its first one, so that the caller can skip other jobs with that lane.
--
-- Giving back lanes wakes no workers if the job itself is next there. Otherwise idle workers would
-- keep waking each other while one of its other lanes stays locked.
--
-- The worker has a slot free for it (see pass_gates), so a limit may give it one of its own.
--
-- A job that keeps its lanes for its retry is in no line, and starts without a look at the heads.
CREATE OR REPLACE FUNCTION start_in_lanes(
    p_worker uuid, p_queues text[], p_id bigint, p_paused text[],
    OUT started jobs, OUT lost text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_seen  jobs;
    v_lanes job_lanes;
    v_won   record;
    v_other text[] := '{}';   -- lanes that we have won but whose head is another job
    v_is_ok boolean := false;
    v_asleep bigint[];
BEGIN
    SELECT * INTO v_seen FROM jobs WHERE id = p_id AND status = 'todo';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_lanes := ROW(p_id, v_seen.locks, v_seen.shared);
    IF closed_lane(p_id, v_seen.locks, v_seen.shared) IS NOT NULL THEN
        PERFORM block_in_lanes(ARRAY[p_id]);
        RETURN;
    END IF;
    SELECT * INTO v_won FROM win_lanes(p_worker, v_lanes);
    IF v_won.lost IS NULL THEN
        -- New statements, so they read what was committed before we got the lanes.
        IF v_seen.keeps_lanes IS NULL THEN
            v_other := ARRAY(
                SELECT head.lock FROM lane_heads(v_seen.locks) AS head WHERE head.id <> p_id);
        END IF;
        v_is_ok := v_other = '{}' AND is_startable(v_seen, p_queues)
            AND (v_seen.limit_key IS NULL AND v_seen.task NOT IN (SELECT unnest(p_paused))
                OR (take_slots(ARRAY[p_id], 1, p_paused)).ids <> '{}');
    END IF;
    IF v_is_ok THEN
        PERFORM take_lanes(p_worker, v_lanes, v_won.new_lanes, v_seen.keeps_lanes);
        SELECT * INTO started FROM start_jobs(
            p_worker, ARRAY[p_id], v_seen.limit_key IS NOT NULL);
        PERFORM notify_workers(wake_readers(v_seen.shared)) WHERE v_seen.shared IS NOT NULL;
        RETURN;
    END IF;
    v_asleep := block_in_lanes(ARRAY[p_id], v_other, v_won.new_lanes);
    PERFORM notify_workers(release_lanes(v_won.new_lanes, p_id));
    PERFORM notify_workers(wake_readers(v_seen.shared, p_id)) WHERE v_won.lost IS NULL;
    IF v_asleep = '{}' THEN
        lost := coalesce(v_won.lost, (SELECT lock FROM jobs WHERE id = p_id AND status = 'todo'));
    END IF;
END $$;
