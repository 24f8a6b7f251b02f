-- When each worker was last heard of. Who wants to judge compares answers of its own (see declare_dead): the time alone does not
-- tell a dead worker from one that a database which was away could not hear.
--   late    by the server's clock it was silent for longer than that, with jobs in hand
--   locked  somebody has its row locked, and so it cannot be heard of
CREATE OR REPLACE FUNCTION last_heartbeats(p_late_after interval)
RETURNS TABLE (id uuid, heartbeat_at timestamptz, late boolean, locked boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT id, heartbeat_at,
           heartbeat_at < clock() - p_late_after
               AND EXISTS (SELECT FROM jobs WHERE status = 'doing' AND worker_id = workers.id),
           CASE WHEN is_touched(xmin, xmax) THEN is_locked(id) ELSE false END
    FROM workers;
END $$;
