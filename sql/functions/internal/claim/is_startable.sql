-- Locks a job without waiting, and returns whether it can still start as it was seen: it waits, its
-- queue is served, it has not expired, and its task is the same. The caller has won its lanes.
CREATE OR REPLACE FUNCTION is_startable(p_seen jobs, p_queues text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM jobs
    WHERE jobs.id = p_seen.id AND jobs.status IN ('todo', 'blocked')
        AND jobs.keeps_lanes IS NOT DISTINCT FROM p_seen.keeps_lanes
        AND jobs.task = p_seen.task
        AND (p_queues IS NULL OR jobs.queue = ANY (p_queues))
        AND (jobs.expires_at IS NULL OR jobs.was_attempted OR jobs.expires_at > clock())
    FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;
