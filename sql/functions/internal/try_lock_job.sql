-- Makes the row of a job ours until commit, without waiting. False: somebody's open transaction has it, or it is gone.
CREATE OR REPLACE FUNCTION try_lock_job(p_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM jobs WHERE id = p_id FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;
