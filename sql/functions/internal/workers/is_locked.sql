-- Returns whether another session has a worker's row locked, so that the worker cannot report that
-- it is alive.
CREATE OR REPLACE FUNCTION is_locked(p_worker uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR NO KEY UPDATE SKIP LOCKED;
    RETURN NOT FOUND;
END $$;
