-- Returns whether another session is settling what is due (see settle). A claim then leaves it
-- alone: it would walk over all rows that the other session has locked. Never waits.
CREATE OR REPLACE FUNCTION is_settling() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    -- Not until commit: this session must not keep others from settling.
    RETURN NOT pg_try_advisory_lock_shared(lock_key('settle'))
        OR NOT pg_advisory_unlock_shared(lock_key('settle'));
END $$;
