-- A worker ends: what it was still doing goes back to the head of its lane at once. If it ends because of an error that no job of its
-- own can be blamed for, all of them are lost to it: else they would be claimed again and again, and end one worker after the
-- other. Returns how many jobs went back, or have failed by that. What somebody's open transaction keeps from us is rescued
-- later, and so is a row of the worker that somebody has locked.
CREATE OR REPLACE FUNCTION unregister_worker(
    p_worker uuid, p_error text DEFAULT NULL, p_max_lost integer DEFAULT 5
) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM workers WHERE id IN (SELECT id FROM workers WHERE id = p_worker FOR UPDATE SKIP LOCKED);
    RETURN (SELECT count(*) FROM rescue(p_max_lost, p_worker, p_error IS NOT NULL, p_error));
END $$;
