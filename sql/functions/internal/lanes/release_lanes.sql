-- Frees lanes. The best waiting job of each lane becomes `todo`, the lane's wake-up token, and the
-- lane row is deleted or, if the lane has floors, kept as a free row. The caller holds the rows.
-- Returns the queues of the tokens, whose workers must be woken. Leaves p_spared alone, a job that
-- a claim has just blocked in one of these lanes.
--
-- If an open transaction has a blocked job locked, the job cannot become a token until the
-- transaction ends, and a rollback sends no notification. The lane keeps its row, and claims look
-- at it again and again (resume_lanes).
CREATE OR REPLACE FUNCTION release_lanes(
    p_locks text[], p_spared bigint DEFAULT NULL, p_floors jsonb DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_now    timestamptz := clock();
    v_result text[];
BEGIN
    IF coalesce(p_locks, '{}') = '{}' THEN
        RETURN '{}';
    END IF;
    WITH head AS MATERIALIZED (
        SELECT lock, id, queue, asleep, asleep AND touched AND NOT try_lock_job(id) AS busy
        FROM lane_heads(p_locks, p_floors) WHERE id IS DISTINCT FROM p_spared
    ), token AS (
        UPDATE jobs SET status = 'todo'
        WHERE jobs.id = ANY (ARRAY(SELECT head.id FROM head WHERE asleep AND NOT busy))
            AND jobs.status = 'blocked'
    ), delayed AS (
        UPDATE lanes
        SET worker_id = NULL, readers = NULL,
            since = CASE WHEN lanes.look_at IS NULL THEN v_now ELSE lanes.since END,
            look_at = next_look_at(CASE WHEN lanes.look_at IS NULL THEN v_now ELSE lanes.since END)
        WHERE lanes.lock = ANY (ARRAY(SELECT head.lock FROM head WHERE busy))
        RETURNING lanes.lock, lanes.since
    ), kept AS (
        UPDATE lanes
        SET worker_id = NULL, readers = NULL, look_at = NULL, since = v_now,
            version = next_version(lanes.version, NULL)
        FROM (SELECT lock FROM unnest(p_locks) AS lock WHERE p_floors ? lock
              EXCEPT SELECT lock FROM head WHERE busy) AS own
        WHERE lanes.ctid = (
            SELECT newest.ctid FROM lanes AS newest WHERE newest.lock = own.lock
            ORDER BY newest.version DESC LIMIT 1)
    ), gone AS (
        DELETE FROM lanes WHERE lanes.lock = ANY (ARRAY(
            SELECT lock FROM unnest(p_locks) AS lock WHERE (p_floors ? lock) IS NOT TRUE
            EXCEPT SELECT lock FROM head WHERE busy))
    )
    SELECT coalesce(array_agg(DISTINCT queue), '{}') INTO v_result
    FROM head
    -- Notify sleeping workers once about a lane that is delayed.
    WHERE NOT busy OR lock IN (SELECT delayed.lock FROM delayed WHERE delayed.since = v_now);
    RETURN v_result;
END $$;
