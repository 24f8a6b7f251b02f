-- Whether the event loop of a worker stood still when it was last heard of. Its heart is a thread and beats on.
CREATE OR REPLACE FUNCTION is_blocked(p_worker workers) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_worker.heartbeat_at - p_worker.loop_turned_at > interval '10 seconds'
$$;
