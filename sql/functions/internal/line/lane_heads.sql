-- Returns the next job of each lane: the highest priority, then the lowest id. Call it in a
-- statement that begins *after* you have the lane row; an earlier answer may be out of date. A head
-- that is `touched` may be locked by an open transaction, for example by a replace; try_lock_job
-- tells. A head expires at start_before and must start earlier. `grouped`: it has a group. If it
-- has `several` lanes, or shares one, only start_in_lanes may start it. If it is `aside`, it waits
-- at a gate, and only open_gates wakes it.
--
-- A lane's line is in jobs_lane, and in `waits` for jobs that have another first lane. Each lane
-- probes `waits` by its own name: a check whether the table is empty would scan the dead entries of
-- all lanes while an old transaction is open.
CREATE OR REPLACE FUNCTION lane_heads(p_locks text[])
RETURNS TABLE (lock text, id bigint, queue text, priority integer, asleep boolean, touched boolean,
    start_before timestamptz, limited boolean, grouped boolean, several boolean, task text,
    aside boolean)
LANGUAGE sql STABLE AS $$
    SELECT lane.lock, head.id, head.queue, head.priority, head.status = 'blocked',
        is_touched(head.xmin, head.xmax),
        CASE WHEN NOT head.was_attempted THEN head.expires_at END, head.limit_key IS NOT NULL,
        head.group_key IS NOT NULL, head.locks IS NOT NULL, head.task::text,
        head.status IN ('limited', 'paused')
    FROM unnest(p_locks) AS lane(lock)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority, jobs.status, jobs.xmin, jobs.xmax,
            jobs.was_attempted, jobs.expires_at, jobs.limit_key, jobs.group_key, jobs.locks,
            jobs.task
        FROM jobs
        WHERE jobs.lock = lane.lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT 1
    ) AS head
    WHERE (
        SELECT true FROM (
            SELECT waits.priority, waits.id FROM waits WHERE waits.lock = lane.lock
            ORDER BY waits.priority DESC, waits.id LIMIT 1
        ) AS other WHERE (other.priority, head.id) > (head.priority, other.id)
    ) IS NULL
    UNION ALL
    SELECT lane.lock, head.id, head.queue, head.priority, head.status = 'blocked',
        is_touched(head.xmin, head.xmax),
        CASE WHEN NOT head.was_attempted THEN head.expires_at END, head.limit_key IS NOT NULL,
        head.group_key IS NOT NULL, true, head.task::text, head.status IN ('limited', 'paused')
    FROM unnest(p_locks) AS lane(lock)
    CROSS JOIN LATERAL (
        SELECT waits.priority, waits.id FROM waits WHERE waits.lock = lane.lock
        ORDER BY waits.priority DESC, waits.id LIMIT 1
    ) AS first
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority, jobs.status, jobs.xmin, jobs.xmax,
            jobs.was_attempted, jobs.expires_at, jobs.limit_key, jobs.group_key, jobs.task
        FROM jobs WHERE jobs.id = first.id LIMIT 1
    ) AS head
    WHERE (
        SELECT true FROM (
            SELECT jobs.priority, jobs.id FROM jobs
            WHERE jobs.lock = lane.lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
                AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT 1
        ) AS other WHERE (other.priority, first.id) > (first.priority, other.id)
    ) IS NULL
$$;
