-- Returns the best jobs of a lane's line, in no order: at most p_limit of each of its two parts.
-- These are jobs_lane, and `waits` for jobs that have another first lane. The planner inlines it.
--
-- It probes `waits` by the name of the lane: a check whether the table is empty would scan the dead
-- entries of all lanes while an old transaction is open.
CREATE OR REPLACE FUNCTION line_of(p_lock text, p_limit integer)
    RETURNS TABLE (priority integer, id bigint)
LANGUAGE sql STABLE AS $$
    (SELECT jobs.priority, jobs.id FROM jobs
     WHERE jobs.lock::text = p_lock AND may_wait(jobs.status)
        AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
     ORDER BY jobs.priority DESC, jobs.id LIMIT p_limit)
    UNION ALL
    (SELECT waits.priority, waits.id FROM waits WHERE waits.lock::text = p_lock
     ORDER BY waits.priority DESC, waits.id LIMIT p_limit)
$$;
