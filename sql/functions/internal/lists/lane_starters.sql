-- Returns jobs that may be able to start in their lanes: the heads of at most p_looked lanes, the
-- jobs that these lanes wait for, and at most p_looked jobs that keep their lanes. p_lock NULL
-- means any lane. Takes some probes for each lane in which jobs wait.
CREATE OR REPLACE FUNCTION lane_starters(p_looked integer, p_lock text) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    (SELECT jobs.id FROM jobs WHERE jobs.keeps_lanes ORDER BY jobs.id LIMIT p_looked)
    UNION ALL
    SELECT head.id FROM lane_heads(ARRAY[p_lock]) AS head WHERE p_lock IS NOT NULL
    UNION ALL
    SELECT lanes.job_id FROM lanes WHERE lanes.lock = p_lock AND lanes.job_id IS NOT NULL
    UNION ALL
    (WITH RECURSIVE lane(lock) AS (
        (SELECT jobs.lock FROM jobs
         WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
             AND jobs.keeps_lanes IS NULL AND p_lock IS NULL
         ORDER BY jobs.lock LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.lock FROM jobs
                WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
                    AND jobs.keeps_lanes IS NULL
                  AND jobs.lock > lane.lock
                ORDER BY jobs.lock LIMIT 1)
        FROM lane WHERE lane.lock IS NOT NULL
     )
     SELECT starter.id
     FROM (SELECT lane.lock FROM lane WHERE lane.lock IS NOT NULL LIMIT p_looked) AS found
     CROSS JOIN LATERAL (
         SELECT head.id FROM lane_heads(ARRAY[found.lock]) AS head
         UNION ALL
         -- A lane that waits for a retry may have another head.
         SELECT lanes.job_id FROM lanes
         WHERE lanes.lock = found.lock AND lanes.job_id IS NOT NULL) AS starter)
$$;
