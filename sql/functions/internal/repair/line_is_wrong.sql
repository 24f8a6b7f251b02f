-- Returns whether the rows of `waits` contradict the jobs in front of a lane. Its first row must
-- belong to a job in line, or the lane would have no head. And a head with several lanes must have
-- its place in each of them, or two jobs could wait for each other. This happens only if jobs are
-- changed by hand: deleted, or given another priority.
CREATE OR REPLACE FUNCTION line_is_wrong(p_lock text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT waits.priority, waits.id FROM waits WHERE waits.lock = p_lock
            ORDER BY waits.priority DESC, waits.id LIMIT 1
        ) AS first
        WHERE (SELECT true FROM jobs
               WHERE jobs.id = first.id AND jobs.priority = first.priority
                   AND status IN ('todo', 'blocked', 'limited', 'paused') AND keeps_lanes IS NULL
                   AND p_lock = ANY (locks[2:]) LIMIT 1) IS NULL
    ) OR EXISTS (
        SELECT FROM lane_heads(ARRAY[p_lock]) AS head
        CROSS JOIN LATERAL (SELECT jobs.locks FROM jobs WHERE jobs.id = head.id LIMIT 1) AS job
        CROSS JOIN LATERAL unnest(job.locks[2:]) AS lane
        WHERE head.several AND (
            SELECT true FROM waits
            WHERE waits.lock = lane AND waits.priority = head.priority AND waits.id = head.id
            LIMIT 1) IS NULL
    )
$$;
