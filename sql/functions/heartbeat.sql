-- A worker says that it is alive, and for how long its event loop has not turned. False: it was taken for dead, and its jobs
-- belong to others.
CREATE OR REPLACE FUNCTION heartbeat(p_worker uuid, p_blocked interval DEFAULT '0') RETURNS boolean
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH alive AS (
        UPDATE workers SET heartbeat_at = clock(), loop_turned_at = clock() - p_blocked WHERE id = p_worker RETURNING 1
    )
    SELECT EXISTS (SELECT FROM alive)
$$;
