-- The tokens of lanes in front of these queues, as many of each as the window is wide. Whether the lane can be won for a token
-- (open): nobody holds it, or it waits for the retry that we see; and of several tokens of a lane only for the best one. Lanes of p_lost
-- were lost to another claim just now, whose hold on them we cannot see before it commits.
CREATE OR REPLACE FUNCTION lane_tokens(p_queues text[], p_window integer, p_lost text[])
RETURNS TABLE (id bigint, lock text, priority integer, open boolean, touched boolean)
LANGUAGE sql STABLE AS $$
    SELECT t.id, t.lock, t.priority,
        (lane.lock IS NULL OR (lane.job_id IS NOT DISTINCT FROM t.id AND lane.stopped IS NULL))
            AND t.lock <> ALL (p_lost)
            AND row_number() OVER (
                PARTITION BY t.lock, lane.job_id IS NOT DISTINCT FROM t.id ORDER BY t.priority DESC, t.id) = 1
            -- One that somebody's open transaction has locked takes nobody's place.
            AND CASE WHEN is_touched(t.xmin, t.xmax) THEN try_lock_job(t.id) ELSE true END,
        is_touched(t.xmin, t.xmax)
    FROM unnest(p_queues) AS q(queue)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.lock, jobs.priority, jobs.xmin, jobs.xmax FROM jobs
        WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL AND jobs.queue = q.queue
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT p_window
    ) AS t
    LEFT JOIN lanes AS lane ON lane.lock = t.lock
$$;
