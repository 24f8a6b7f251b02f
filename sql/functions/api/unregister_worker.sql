-- Removes a worker that ends. The jobs that it was still doing go back to the head of their lanes
-- at once. If it ends because of an error that cannot be blamed on a single job, all of them count
-- as lost: otherwise they would be claimed again and again, and end one worker after another.
-- Returns the number of jobs that went back or failed this way. Jobs that an open transaction has
-- locked are rescued later, and so are those of a worker whose row is locked.
CREATE OR REPLACE FUNCTION unregister_worker(
    p_worker uuid, p_error text DEFAULT NULL, p_max_lost integer DEFAULT 5
) RETURNS bigint
LANGUAGE sql AS $$
    DELETE FROM workers
    WHERE id IN (SELECT id FROM workers WHERE id = p_worker FOR UPDATE SKIP LOCKED);
    SELECT count(*) FROM rescue(p_max_lost, p_worker, p_error IS NOT NULL, p_error)
$$;
