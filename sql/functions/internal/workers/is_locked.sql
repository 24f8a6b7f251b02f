-- Returns whether somebody has the row of a worker locked, so that it cannot report that it is
-- alive.
CREATE OR REPLACE FUNCTION is_locked(p_worker uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR NO KEY UPDATE SKIP LOCKED;
    RETURN NOT FOUND;
END $$;
