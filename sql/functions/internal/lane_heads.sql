-- Returns the next job of each lane: the highest priority, then the lowest id. Call it in a
-- statement that begins *after* you have the lane row. An earlier answer may be out of date. A
-- head that is `touched` may be locked by an open transaction, for example by a replace.
-- try_lock_job tells. A head must not start at or after start_before: it expires then.
-- `grouped`: it has a group.
CREATE OR REPLACE FUNCTION lane_heads(p_locks text[])
RETURNS TABLE (lock text, id bigint, queue text, priority integer, asleep boolean, touched boolean,
    start_before timestamptz, limited boolean, grouped boolean)
LANGUAGE sql STABLE AS $$
    SELECT lane.lock, head.id, head.queue, head.priority, head.status = 'blocked',
        is_touched(head.xmin, head.xmax),
        CASE WHEN NOT head.was_attempted THEN head.expires_at END, head.limit_key IS NOT NULL,
        head.group_key IS NOT NULL
    FROM unnest(p_locks) AS lane(lock)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority, jobs.status, jobs.xmin, jobs.xmax,
            jobs.was_attempted, jobs.expires_at, jobs.limit_key, jobs.group_key
        FROM jobs
        WHERE jobs.lock = lane.lock AND jobs.status IN ('todo', 'blocked', 'limited')
            AND jobs.lock IS NOT NULL
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT 1
    ) AS head
$$;
