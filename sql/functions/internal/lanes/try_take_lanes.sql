-- Locks lanes for several changes from outside, without waiting, and returns those that are ours
-- now. Unlike try_lock_lanes, it keeps out callers of lock_lane too: they lock a lane's name first,
-- and one that had it would wait for us, and we for it. End with reopen_lane for each.
CREATE OR REPLACE FUNCTION try_take_lanes(p_locks text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce(try_lock_lanes(ARRAY(
        SELECT DISTINCT lock FROM unnest(p_locks) AS lock
        WHERE pg_try_advisory_xact_lock(lane_key(lock)))), '{}');
END $$;
