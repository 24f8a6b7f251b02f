-- Locks a worker's row until commit. The worker itself may be writing it, which takes no time, so
-- the call waits a moment. Returns false if an open transaction has the row locked, or it is gone.
CREATE OR REPLACE FUNCTION lock_worker(p_worker uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR UPDATE SKIP LOCKED;
    RETURN FOUND OR await_worker(p_worker);
END $$;
