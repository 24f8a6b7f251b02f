-- Wins the lanes of a job that has `locks`, in order, until it loses one. Never waits (see
-- acquire_lanes). A lane that no worker holds gets a new row, owned by the job, or its free row
-- becomes the job's. A row that waits for the job, or that it can share, is locked and stays as it
-- was. Returns the lane that it lost, or NULL if all are won, and the new ones: give them back
-- unless the job starts. Once all are won, no other session starts, blocks or cancels the job.
CREATE OR REPLACE FUNCTION win_lanes(
    p_worker uuid, p_job job_lanes, OUT lost text, OUT new_lanes text[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_lock text;
    v_named boolean;
    v_lane lanes;
    v_shared boolean;
BEGIN
    new_lanes := '{}';
    FOREACH v_lock IN ARRAY p_job.locks LOOP
        SELECT * INTO v_lane FROM lanes
        WHERE lanes.lock = v_lock AND lets_start(lanes, p_job.id, p_job.shared)
        ORDER BY lanes.version DESC LIMIT 1
        FOR UPDATE SKIP LOCKED;
        v_shared := coalesce(v_lock = ANY (p_job.shared), false);
        IF v_lane.lock IS NOT NULL AND v_lane.state IS NULL THEN
            UPDATE lanes
            SET worker_id = CASE WHEN NOT v_shared THEN p_worker END,
                readers = CASE WHEN v_shared THEN 1 END, since = clock(),
                version = next_version(lanes.version, NULL)
            WHERE lanes.ctid = (
                SELECT newest.ctid FROM lanes AS newest WHERE newest.lock = v_lock
                ORDER BY newest.version DESC LIMIT 1);
            new_lanes := new_lanes || v_lock;
        ELSIF v_lane.lock IS NULL THEN
            v_named := pg_try_advisory_xact_lock(lock_key('lane', v_lock));
            INSERT INTO lanes (lock, worker_id, readers, since)
            SELECT v_lock, CASE WHEN NOT v_shared THEN p_worker END,
                CASE WHEN v_shared THEN 1 END, clock()
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
