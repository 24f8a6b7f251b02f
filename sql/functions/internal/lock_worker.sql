-- Makes the row of a worker ours until commit. The worker itself may be writing it, which takes no time, so a moment is waited.
-- False: somebody's open transaction has it, or it is gone.
CREATE OR REPLACE FUNCTION lock_worker(p_worker uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR UPDATE SKIP LOCKED;
    RETURN FOUND OR await_worker(p_worker);
END $$;
