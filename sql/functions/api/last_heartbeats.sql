-- Returns each worker's last heartbeat. To judge a worker, compare two of your own readings (see
-- declare_dead). The time alone cannot distinguish a dead worker from a database that was down.
--   late    silent for longer than p_late_after and three of its own heartbeats by the server's
--           clock, with jobs in hand
--   locked  its row is locked, so its heartbeats cannot be recorded
--   heartbeat_every  its heartbeat interval
CREATE OR REPLACE FUNCTION last_heartbeats(p_late_after interval)
RETURNS TABLE (
    id uuid, heartbeat_at timestamptz, late boolean, locked boolean, heartbeat_every interval
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT id, heartbeat_at,
           heartbeat_at < clock() - greatest(p_late_after, 3 * heartbeat_every)
               AND EXISTS (SELECT FROM jobs WHERE status = 'doing' AND worker_id = workers.id),
           CASE WHEN is_touched(xmin, xmax) THEN is_locked(id) ELSE false END,
           heartbeat_every
    FROM workers;
END $$;
