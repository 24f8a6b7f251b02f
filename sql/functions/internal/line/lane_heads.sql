-- Returns the next job of each lane: the highest priority, then the lowest id. Call it in a
-- statement that begins *after* you have the lane row; an earlier answer may be out of date. A head
-- that is `touched` may be locked by an open transaction, for example by a replace; try_lock_job
-- tells. A head expires at start_before and must start earlier. `grouped`: it has a group. If it
-- has `several` lanes, or shares one, only start_in_lanes may start it. If it is `aside`, it waits
-- at a gate, and only open_gates wakes it. Begins at the floors of the lanes that have one.
CREATE OR REPLACE FUNCTION lane_heads(p_locks text[], p_floors jsonb DEFAULT NULL)
RETURNS TABLE (lock text, id bigint, queue text, priority integer, asleep boolean, touched boolean,
    start_before timestamptz, limited boolean, grouped boolean, several boolean, task text,
    aside boolean)
LANGUAGE sql STABLE AS $$
    SELECT lane.lock, head.id, head.queue, head.priority, has_status(head.status, 'blocked'),
        is_touched(head.xmin, head.xmax),
        CASE WHEN NOT head.was_attempted THEN head.expires_at END, head.limit_key IS NOT NULL,
        head.group_key IS NOT NULL, head.locks IS NOT NULL, head.task::text,
        has_status(head.status, 'limited') OR has_status(head.status, 'paused')
    FROM unnest(p_locks) AS lane(lock)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority, jobs.status, jobs.xmin, jobs.xmax,
            jobs.was_attempted, jobs.expires_at, jobs.limit_key, jobs.group_key, jobs.locks,
            jobs.task
        FROM jobs
        WHERE jobs.id = CASE WHEN p_floors ? lane.lock
            THEN (SELECT id FROM line_from(lane.lock, p_floors -> lane.lock)
                  ORDER BY priority DESC, id LIMIT 1)
            ELSE (SELECT id FROM line_of(lane.lock, 1) ORDER BY priority DESC, id LIMIT 1) END
        LIMIT 1
    ) AS head
$$;
