-- Returns the best job of a lane's line, and the best of its part in `waits`, without a look at
-- what its floors leave behind. Does the work of line_of for a lane that has run many jobs while an
-- open snapshot keeps their index entries: they lie in front of all that wait.
--
-- Below a floor, only jobs that came back are looked for, and those have an index of their own: a
-- job gets a fence when it starts, and a time when it is scheduled or its priority changes. Above
-- the first floor, between two, and below the last, it looks at all jobs.
--
-- The pieces are read in order, each only if those before it are empty: a nested loop keeps the
-- order of its outer side. The planner cannot inline the function, so who has no floors does not
-- pay for it.
CREATE OR REPLACE FUNCTION line_from(p_lock text, p_floors lane_floor[])
    RETURNS TABLE (priority integer, id bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT found.priority, found.id
    FROM (
        SELECT floor.priority, floor.id,
            lag(floor.priority) OVER (ORDER BY floor.priority DESC NULLS LAST) AS above
        FROM (
            SELECT f.priority, max(f.id) AS id FROM unnest(p_floors) AS f
            WHERE f.lock = p_lock GROUP BY f.priority
            UNION ALL
            SELECT NULL, NULL
        ) AS floor
        ORDER BY floor.priority DESC NULLS LAST
    ) AS piece
    CROSS JOIN LATERAL (
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            AND jobs.priority < coalesce(piece.above, 2147483648)
            AND jobs.priority > coalesce(piece.priority, -2147483649)
         ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
        UNION ALL
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            AND (jobs.fence IS NOT NULL OR jobs.scheduled_at IS NOT NULL
                 OR jobs.delayed_at IS NOT NULL)
            AND jobs.priority = piece.priority AND jobs.id < piece.id
         ORDER BY jobs.id LIMIT 1)
        UNION ALL
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            AND jobs.priority = piece.priority AND jobs.id >= piece.id
         ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
    ) AS found
    LIMIT 1;
    RETURN QUERY
    SELECT waits.priority, waits.id FROM waits WHERE waits.lock = p_lock
    ORDER BY waits.priority DESC, waits.id LIMIT 1;
END $$;
