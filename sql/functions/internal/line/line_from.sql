-- Returns the best job of a lane's line, and the best of its part in `waits`, without a look at
-- what its floor leaves behind: the jobs of this priority with lower ids. Does the work of line_of
-- for a lane that has run many jobs while an open snapshot keeps their index entries: they lie in
-- front of all that wait.
--
-- Below the floor, only jobs that came back are looked for, and those have an index of their own: a
-- job gets a fence when it starts, and a time when it is scheduled or its priority changes.
--
-- The parts are read in order, each only if those before it are empty. Two bounds for one priority
-- keep the planner from jobs_pkey, which has the order of ids, too, and all jobs of other lanes. It
-- cannot inline the function, so who has no floor does not pay for it.
CREATE OR REPLACE FUNCTION line_from(p_lock text, p_priority integer, p_id bigint)
    RETURNS TABLE (priority integer, id bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    ((SELECT jobs.priority, jobs.id FROM jobs
     WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
        AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        AND jobs.priority > p_priority
     ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
    UNION ALL
    (SELECT jobs.priority, jobs.id FROM jobs
     WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
        AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        AND (jobs.fence IS NOT NULL OR jobs.scheduled_at IS NOT NULL
             OR jobs.delayed_at IS NOT NULL)
        AND jobs.priority >= p_priority AND jobs.priority <= p_priority AND jobs.id < p_id
     ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
    UNION ALL
    (SELECT jobs.priority, jobs.id FROM jobs
     WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
        AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        AND jobs.priority >= p_priority AND jobs.priority <= p_priority AND jobs.id >= p_id
     ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
    UNION ALL
    (SELECT jobs.priority, jobs.id FROM jobs
     WHERE jobs.lock::text = p_lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
        AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        AND jobs.priority < p_priority
     ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
    LIMIT 1)
    UNION ALL
    (SELECT waits.priority, waits.id FROM waits WHERE waits.lock = p_lock
     ORDER BY waits.priority DESC, waits.id LIMIT 1);
END $$;
