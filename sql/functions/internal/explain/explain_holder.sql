-- Returns a reason if the worker that holds something is gone, late or blocked, or if the database
-- refuses its calls.
CREATE OR REPLACE FUNCTION explain_holder(p_worker uuid)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'holder lost',
        coalesce('worker ' || name || ' was last heard of at ' || heartbeat_at,
                 'worker ' || p_worker || ' is gone')
            || '; any live worker takes over its jobs',
        CASE WHEN NOT EXISTS (SELECT FROM workers WHERE is_live(workers)) THEN 'queue worker' END
    FROM (SELECT p_worker AS id) AS holder LEFT JOIN workers USING (id)
    WHERE workers.id IS NULL OR NOT is_live(workers)
    UNION ALL
    SELECT 'holder blocked',
        'the event loop of worker ' || name || ' has not turned since ' || loop_turned_at
            || ': it cannot report that a job has ended',
        'its log says what blocks it (loop.blocked); if it stays blocked: '
            || ending_of_worker(workers)
    FROM workers WHERE id = p_worker AND is_live(workers) AND is_blocked(workers)
    UNION ALL
    SELECT 'holder refused',
        'the database refuses calls of worker ' || name
            || ', perhaps its report that the job has ended: ' || trouble,
        NULL
    FROM workers WHERE id = p_worker AND is_live(workers) AND trouble IS NOT NULL
$$;
