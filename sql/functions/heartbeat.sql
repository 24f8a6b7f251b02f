-- A worker says that it is alive. False: it was taken for dead, and its jobs belong to others.
CREATE OR REPLACE FUNCTION heartbeat(p_worker uuid) RETURNS boolean
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH alive AS (UPDATE workers SET heartbeat_at = clock() WHERE id = p_worker RETURNING 1)
    SELECT EXISTS (SELECT FROM alive)
$$;
