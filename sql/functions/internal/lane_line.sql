-- Returns the jobs in the line of a lane, and those that keep it for their retry, or NULL if there
-- may be more than p_most.
CREATE OR REPLACE FUNCTION lane_line(p_lock text, p_most integer) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN count(*) <= p_most THEN coalesce(array_agg(line.id), '{}') END
    FROM (
        (SELECT jobs.id FROM jobs
         WHERE jobs.lock = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
             AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
         LIMIT p_most + 1)
        UNION ALL
        (SELECT waits.id FROM waits WHERE waits.lock = p_lock LIMIT p_most + 1)
        UNION ALL
        (SELECT jobs.id FROM jobs WHERE jobs.keeps_lanes AND p_lock = ANY (jobs.locks)
         LIMIT p_most + 1)
    ) AS line
$$;
