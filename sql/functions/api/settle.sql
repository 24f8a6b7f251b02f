-- settle: makes ready, or ends, what is due in any queue, at most p_limit of each kind. Returns how
-- many it has handled, or NULL if another session is at it. Call it again until that is zero.
--
-- A claim settles what is due only if it is little, so jobs of one queue that are due in the same
-- instant do not slow down the claims of another. Never waits.
CREATE OR REPLACE FUNCTION settle(p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_read_committed();
    IF NOT pg_try_advisory_xact_lock(lock_key('settle')) THEN
        RETURN NULL;
    END IF;
    RETURN settle_due(p_limit, true, true, true, true, true);
END $$;
