-- Returns whether a worker's event loop was blocked at its last sign of life. Heartbeats come from
-- a thread and continue.
CREATE OR REPLACE FUNCTION is_blocked(p_worker workers) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_worker.heartbeat_at - p_worker.loop_turned_at > interval '10 seconds'
$$;
