-- Locks the row of a job until commit, without waiting. Returns false if an open transaction has it
-- locked, or it is gone.
CREATE OR REPLACE FUNCTION try_lock_job(p_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM jobs WHERE id = p_id FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;
