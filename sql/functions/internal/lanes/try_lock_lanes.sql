-- Locks lanes for changes by a person, without waiting, and returns those that are now ours. A lane
-- that has no row gets one. End with reopen_lane for each. Leaves out a lane whose name is locked,
-- even if it has a row: lock_lane locks the name first, and could deadlock with us.
CREATE OR REPLACE FUNCTION try_lock_lanes(p_locks text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_named text[] := ARRAY(
        SELECT DISTINCT lock FROM unnest(p_locks) AS lock
        WHERE pg_try_advisory_xact_lock(lock_key('lane', lock)));
    v_held  text[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT lanes.lock FROM lanes WHERE lanes.lock = ANY (v_named) FOR UPDATE SKIP LOCKED
    ), created AS (
        INSERT INTO lanes (lock, since)
        SELECT named.lock, clock() FROM unnest(v_named) AS named(lock)
        WHERE (SELECT true FROM lanes WHERE lanes.lock = named.lock LIMIT 1) IS NULL
        ON CONFLICT DO NOTHING
        RETURNING lanes.lock
    )
    SELECT coalesce(array_agg(lock), '{}') INTO v_held
    FROM (TABLE held UNION ALL TABLE created) AS ours;
    RETURN v_held;
END $$;
