-- Returns the ids of the next jobs of a lane, in the order in which they will run, at most p_limit.
-- It reads the front of both indexes that make up the line (see lane_heads).
CREATE OR REPLACE FUNCTION list_line(p_lock text, p_limit integer) RETURNS SETOF bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    SELECT line.id FROM (
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
             AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
         ORDER BY jobs.priority DESC, jobs.id LIMIT p_limit)
        UNION ALL
        (SELECT waits.priority, waits.id FROM waits WHERE waits.lock = p_lock
         ORDER BY waits.priority DESC, waits.id LIMIT p_limit)
    ) AS line
    ORDER BY line.priority DESC, line.id LIMIT p_limit
$$;
