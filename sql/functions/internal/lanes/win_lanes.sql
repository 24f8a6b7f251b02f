-- Wins the lanes of a job that has `locks`, in order, until it loses one. Never waits (see
-- acquire_lanes). A lane that no worker holds gets a new row, owned by the job, even in place of a
-- free one. A row that waits for the job, or that it can share, is locked and stays as it was.
-- Returns the lane that it lost, or NULL if all are won, and the new ones: give them back unless
-- the job starts. Once all are won, no other session starts, blocks or cancels the job.
CREATE OR REPLACE FUNCTION win_lanes(
    p_worker uuid, p_job job_lanes, OUT lost text, OUT new_lanes text[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_lock text;
    v_named boolean;
    v_lane lanes;
BEGIN
    new_lanes := '{}';
    FOREACH v_lock IN ARRAY p_job.locks LOOP
        SELECT * INTO v_lane FROM lanes
        WHERE lanes.lock = v_lock AND lets_start(lanes, p_job.id, p_job.shared)
        FOR UPDATE SKIP LOCKED;
        IF v_lane.state IS NULL THEN
            DELETE FROM lanes WHERE lanes.lock = v_lane.lock;   -- if we have found a free row
            v_named := pg_try_advisory_xact_lock(lock_key('lane', v_lock));
            INSERT INTO lanes (lock, worker_id, readers, since)
            SELECT v_lock, CASE WHEN NOT is_shared THEN p_worker END,
                CASE WHEN is_shared THEN 1 END, clock()
            FROM (SELECT coalesce(v_lock = ANY (p_job.shared), false)) AS lane(is_shared)
            WHERE v_named AND (SELECT true FROM lanes WHERE lanes.lock = v_lock LIMIT 1) IS NULL
            ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                lost := v_lock;
                RETURN;
            END IF;
            new_lanes := new_lanes || v_lock;
        END IF;
    END LOOP;
END $$;
