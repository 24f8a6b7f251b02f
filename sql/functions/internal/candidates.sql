-- Returns live jobs among which all with one of these statuses are found, if there is a shorter way
-- to them than to look at the newest. NULL if there is none.
-- * doing, claimed: what the workers have in hand is read once, and not once for each job.
-- * todo: at most p_looked jobs without a lock, the newest, and the first of at most p_looked
--   lanes, with one probe for each. In deep lanes the newest jobs are all blocked.
CREATE OR REPLACE FUNCTION candidates(
    p_looked integer, p_statuses job_status[], p_queue text, p_task text, p_lock text
) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_statuses <@ '{claimed,doing}' THEN
        RETURN ARRAY(SELECT id FROM claimed_jobs WHERE status = ANY (p_statuses));
    ELSIF NOT p_statuses <@ '{todo}' OR p_statuses IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        (SELECT id FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND p_lock IS NULL
           AND (p_queue IS NULL OR queue = p_queue) AND (p_task IS NULL OR task = p_task)
         ORDER BY id DESC LIMIT p_looked)
        UNION ALL
        -- A lane that waits for a retry may have another head.
        (SELECT job_id FROM lanes
         WHERE job_id IS NOT NULL AND (p_lock IS NULL OR lock = p_lock) LIMIT p_looked)
        UNION ALL
        (WITH RECURSIVE lane(lock) AS (
            (SELECT jobs.lock FROM jobs
             WHERE status IN ('todo', 'blocked') AND jobs.lock IS NOT NULL
               AND (p_lock IS NULL OR jobs.lock = p_lock)
             ORDER BY jobs.lock LIMIT 1)
            UNION ALL
            SELECT (SELECT jobs.lock FROM jobs
                    WHERE status IN ('todo', 'blocked') AND jobs.lock IS NOT NULL
                      AND jobs.lock > lane.lock AND p_lock IS NULL
                    ORDER BY jobs.lock LIMIT 1)
            FROM lane WHERE lane.lock IS NOT NULL
         )
         SELECT head.id
         FROM (SELECT lane.lock FROM lane WHERE lane.lock IS NOT NULL LIMIT p_looked) AS found
         CROSS JOIN LATERAL lane_heads(ARRAY[found.lock]) AS head)
    );
END $$;
