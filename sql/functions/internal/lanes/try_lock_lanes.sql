-- Locks lanes for a change by a person, without waiting, and returns those that are now ours. A
-- lane that has no row gets one. End with reopen_lane for each.
CREATE OR REPLACE FUNCTION try_lock_lanes(p_locks text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_held text[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT lanes.lock FROM lanes WHERE lanes.lock = ANY (p_locks) FOR UPDATE SKIP LOCKED
    ), created AS (
        -- As in acquire_lanes: the advisory lock filters out lanes that a claim is taking now.
        INSERT INTO lanes (lock, since)
        SELECT wanted.lock, clock() FROM unnest(p_locks) AS wanted(lock)
        WHERE CASE WHEN (SELECT lanes.lock FROM lanes WHERE lanes.lock = wanted.lock) IS NULL
                   THEN pg_try_advisory_xact_lock(lock_key('lane', wanted.lock)) END
        ON CONFLICT DO NOTHING
        RETURNING lanes.lock
    )
    SELECT array_agg(lock) INTO v_held FROM (TABLE held UNION ALL TABLE created) AS ours;
    RETURN v_held;
END $$;
