-- Returns whether a worker was heard of recently enough to count on it: within three heartbeats
-- of the usual length.
CREATE OR REPLACE FUNCTION is_live(p_worker workers) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_worker.heartbeat_at > clock() - interval '30 seconds'
$$;
