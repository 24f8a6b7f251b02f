-- A worker ends: what it was still doing goes back to the head of its lane at once. Returns how many jobs that were. What somebody's
-- open transaction keeps from us is rescued later, and so is a row of the worker that somebody has locked.
CREATE OR REPLACE FUNCTION leave(p_worker uuid) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM workers WHERE id IN (SELECT id FROM workers WHERE id = p_worker FOR UPDATE SKIP LOCKED);
    RETURN (SELECT count(*) FROM rescue(NULL, p_leaver => p_worker) WHERE worker_id = p_worker);
END $$;
