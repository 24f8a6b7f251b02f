-- The next job of each lane: highest priority, then lowest id. Ask it in a statement that begins *after* the lane row is
-- yours: an answer from before may have been overtaken. One that is `touched` may be locked by a user's open transaction (a replace,
-- for one): try_lock_job says whether it is.
CREATE OR REPLACE FUNCTION lane_heads(p_locks text[])
RETURNS TABLE (lock text, id bigint, queue text, priority integer, asleep boolean, touched boolean)
LANGUAGE sql STABLE AS $$
    SELECT lane.lock, head.id, head.queue, head.priority, head.status = 'blocked', is_touched(head.xmin, head.xmax)
    FROM unnest(p_locks) AS lane(lock)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority, jobs.status, jobs.xmin, jobs.xmax FROM jobs
        WHERE jobs.lock = lane.lock AND jobs.status IN ('todo', 'blocked') AND jobs.lock IS NOT NULL
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT 1
    ) AS head
$$;
