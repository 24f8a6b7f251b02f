-- Returns whether a worker's last sign of life is recent enough to rely on: within three of its
-- heartbeats, and at least three of the default length.
CREATE OR REPLACE FUNCTION is_live(p_worker workers) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_worker.heartbeat_at
        > clock() - greatest(interval '30 seconds', 3 * p_worker.heartbeat_every)
$$;
