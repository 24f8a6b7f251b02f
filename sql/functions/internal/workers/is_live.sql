-- Returns whether a worker was heard of recently enough to count on it: within three of its
-- heartbeats, and at least three of the usual length.
CREATE OR REPLACE FUNCTION is_live(p_worker workers) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_worker.heartbeat_at
        > clock() - greatest(interval '30 seconds', 3 * p_worker.heartbeat_every)
$$;
