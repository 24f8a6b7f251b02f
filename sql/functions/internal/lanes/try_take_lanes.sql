-- Locks lanes for several changes by a person, without waiting, and returns those that are now
-- ours. Unlike try_lock_lanes, it also keeps out callers of lock_lane: they lock a lane's name
-- first, and could deadlock with us. End with reopen_lane for each.
CREATE OR REPLACE FUNCTION try_take_lanes(p_locks text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce(try_lock_lanes(ARRAY(
        SELECT DISTINCT lock FROM unnest(p_locks) AS lock
        WHERE pg_try_advisory_xact_lock(lock_key('lane', lock)))), '{}');
END $$;
