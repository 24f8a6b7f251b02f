-- Returns a reason if the worker that holds something is gone, late or blocked, or if the database
-- refuses its calls.
CREATE OR REPLACE FUNCTION explain_holder(p_worker uuid)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'holder lost',
        coalesce('worker ' || name || ' has sent no heartbeat since ' || heartbeat_at,
                 'worker ' || p_worker || ' is gone')
            || '; any live worker takes over its jobs',
        CASE WHEN NOT EXISTS (SELECT FROM workers WHERE is_live(workers)) THEN 'queue worker' END
    FROM (SELECT p_worker AS id) AS holder LEFT JOIN workers USING (id)
    WHERE workers.id IS NULL OR NOT is_live(workers)
    UNION ALL
    SELECT 'holder blocked',
        'the event loop of worker ' || name || ' has been blocked since ' || loop_turned_at
            || ', so it cannot report ended jobs',
        'loop.blocked in its log shows the cause; if it stays blocked: '
            || ending_of_worker(workers)
    FROM workers WHERE id = p_worker AND is_live(workers) AND is_blocked(workers)
    UNION ALL
    SELECT 'holder refused',
        'the database refuses calls from worker ' || name
            || ', perhaps its report that the job ended: ' || trouble,
        NULL
    FROM workers WHERE id = p_worker AND is_live(workers) AND trouble IS NOT NULL
$$;
