-- The next job of each lane: highest priority, then lowest id. Ask it in a statement that begins *after* the lane row is
-- yours: an answer from before may have been overtaken.
CREATE OR REPLACE FUNCTION lane_heads(p_locks text[])
RETURNS TABLE (lock text, id bigint, queue text, priority integer)
LANGUAGE sql STABLE AS $$
    SELECT lane.lock, head.id, head.queue, head.priority
    FROM unnest(p_locks) AS lane(lock)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority FROM jobs
        WHERE jobs.lock = lane.lock AND jobs.status IN ('todo', 'blocked') AND jobs.lock IS NOT NULL
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT 1
    ) AS head
$$;
