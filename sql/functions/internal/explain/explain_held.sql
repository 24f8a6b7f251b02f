-- Returns why a lane is held: the jobs that run there, at most ten, and those that keep their share
-- of it for their retry.
CREATE OR REPLACE FUNCTION explain_held(p_lane lanes, p_where text)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT 'lane held',
        'by job ' || id || ' (' || task || ')' || CASE job.status
            WHEN 'claimed' THEN ', claimed by worker ' || worker || ' at ' || claimed_at || p_where
            ELSE ' since ' || claimed_at || p_where || '; the lane continues when it ends' END,
        ending_of_run(id)
    FROM claimed_jobs AS job
    WHERE (p_lane.worker_id IS NULL OR worker_id = p_lane.worker_id)
        AND (lock = p_lane.lock OR p_lane.lock = ANY (locks))
    LIMIT 10;
    IF p_lane.worker_id IS NOT NULL THEN
        RETURN QUERY SELECT * FROM explain_holder(p_lane.worker_id);
        RETURN;
    END IF;
    RETURN QUERY SELECT 'lane retrying',
        'job ' || id || ' (' || task || ') keeps its share until it is retried'
            || coalesce(', at ' || scheduled_at, '') || p_where,
        'queue jobs retry ' || id
    FROM jobs WHERE keeps_lanes AND p_lane.lock = ANY (shared) ORDER BY id LIMIT 10;
END $$;
