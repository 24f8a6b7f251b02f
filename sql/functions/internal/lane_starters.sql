-- Returns jobs that may be able to start in their lanes: the heads of at most p_looked lanes, and
-- the jobs that lanes wait for, or that keep a share of them. NULL means any lane. It takes two
-- probes for each lane in which jobs wait, and reads the rows of `lanes`.
CREATE OR REPLACE FUNCTION lane_starters(p_looked integer, p_lock text) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    -- A lane that waits for a retry may have another head.
    (SELECT job_id FROM lanes
     WHERE job_id IS NOT NULL AND (p_lock IS NULL OR lock = p_lock) LIMIT p_looked)
    UNION ALL
    (SELECT jobs.id FROM jobs
     WHERE jobs.keeps_lanes AND (p_lock IS NULL OR p_lock = ANY (jobs.locks)) LIMIT p_looked)
    UNION ALL
    SELECT head.id FROM lane_heads(ARRAY[p_lock]) AS head WHERE p_lock IS NOT NULL
    UNION ALL
    (WITH RECURSIVE lane(lock) AS (
        (SELECT jobs.lock FROM jobs
         WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
             AND jobs.keeps_lanes IS NULL
           AND (p_lock IS NULL OR jobs.lock = p_lock)
         ORDER BY jobs.lock LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.lock FROM jobs
                WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
                    AND jobs.keeps_lanes IS NULL
                  AND jobs.lock > lane.lock AND p_lock IS NULL
                ORDER BY jobs.lock LIMIT 1)
        FROM lane WHERE lane.lock IS NOT NULL
     )
     SELECT head.id
     FROM (SELECT lane.lock FROM lane WHERE lane.lock IS NOT NULL LIMIT p_looked) AS found
     CROSS JOIN LATERAL lane_heads(ARRAY[found.lock]) AS head);
END $$;
