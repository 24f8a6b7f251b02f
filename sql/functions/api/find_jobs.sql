-- Returns the jobs that a bulk selects, at most p_limit, lane by lane, in the order in which they
-- run. Jobs without a lock come first. With p_backwards, each lane's last job comes first. To get
-- the next jobs, pass the last one you have. With p_priority or p_queue, jobs that a move would
-- leave as they are do not count.
--
-- With p_backwards, jobs that have ended come last, by id and with a NULL priority: none of them
-- will run, so the next call can continue in the index of ids. Otherwise each call sorts all ended
-- jobs that match.
--
-- Unlike list_jobs, it reads all jobs that may match, so that none is missed. Statuses are those
-- that people see (see live_jobs).
CREATE OR REPLACE FUNCTION find_jobs(
    p_filter         job_filter,
    p_limit          integer,
    p_backwards      boolean DEFAULT false,
    p_after_lock     text    DEFAULT NULL,
    p_after_priority integer DEFAULT NULL,
    p_after_id       bigint  DEFAULT NULL,
    p_priority       integer DEFAULT NULL,
    p_queue          text    DEFAULT NULL
) RETURNS TABLE (id bigint, lock text, priority integer)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_live   job_status[] := ARRAY(
        SELECT status FROM unnest((p_filter).statuses) AS status
        WHERE status IN ('todo', 'blocked', 'limited', 'scheduled', 'pending', 'claimed', 'doing'));
    v_stored job_status[] := v_live
        || CASE WHEN 'blocked' = ANY (v_live) THEN '{todo,paused}' ELSE '{}' END::job_status[]
        || CASE WHEN 'pending' = ANY (v_live) THEN '{scheduled}' ELSE '{}' END::job_status[]
        || CASE WHEN 'claimed' = ANY (v_live) THEN '{doing}' ELSE '{}' END::job_status[];
    v_exact  boolean := NOT (v_live @> '{todo,blocked}' OR NOT v_live && '{todo,blocked}')
        OR NOT (v_live @> '{scheduled,pending}' OR NOT v_live && '{scheduled,pending}')
        OR NOT (v_live @> '{claimed,doing}' OR NOT v_live && '{claimed,doing}');
    v_turn   bigint := CASE WHEN p_backwards THEN -1 ELSE 1 END;
    v_lanes  boolean := p_after_id IS NULL OR p_after_priority IS NOT NULL;   -- not yet through
    v_found  bigint;
BEGIN
    RETURN QUERY
    WITH found AS (
        SELECT job.id, job.lock::text, job.priority FROM jobs AS job
        WHERE v_lanes AND ((p_filter).statuses IS NULL
                OR v_stored <> '{}' AND job.status = ANY (v_stored))
            AND matches_live(p_filter, job)
            AND (num_nonnulls(p_priority, p_queue) = 0
                OR job.priority <> p_priority OR job.queue <> p_queue)
            AND (NOT v_exact OR (SELECT live_jobs.status = ANY (v_live) FROM live_jobs
                WHERE live_jobs.id = job.id))
        UNION ALL
        SELECT job.id, job.lock, job.priority FROM ended_to_change(p_filter) AS job
        WHERE NOT p_backwards
    )
    SELECT found.id, found.lock, found.priority FROM found
    WHERE p_after_id IS NULL
        OR (coalesce(found.lock, '') COLLATE "C", -v_turn * found.priority, v_turn * found.id)
            > (coalesce(p_after_lock, '') COLLATE "C", -v_turn * p_after_priority,
                v_turn * p_after_id)
    ORDER BY coalesce(found.lock, '') COLLATE "C", -v_turn * found.priority, v_turn * found.id
    LIMIT p_limit;
    GET DIAGNOSTICS v_found = ROW_COUNT;
    IF p_backwards AND v_found < p_limit THEN
        RETURN QUERY
        SELECT job.id, job.lock, NULL::integer FROM ended_to_change(p_filter) AS job
        WHERE v_lanes OR job.id > p_after_id
        ORDER BY job.id LIMIT p_limit - v_found;
    END IF;
END $$;
