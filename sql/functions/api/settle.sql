-- settle: makes ready, or ends, what is due in any queue, at most p_limit of each kind. Returns how
-- many it has handled, or zero if another session is at it: it would walk over the rows that the
-- other has locked. Call it again until that is zero. Never waits.
CREATE OR REPLACE FUNCTION settle(p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_read_committed();
    IF NOT pg_try_advisory_xact_lock(lock_key('settle')) THEN
        RETURN 0;
    END IF;
    RETURN settle_due(p_limit, true, true, true, true, true);
END $$;
