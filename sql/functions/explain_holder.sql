-- Whether the worker that holds something still lives.
CREATE OR REPLACE FUNCTION explain_holder(p_worker uuid) RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'holder lost',
        coalesce('worker ' || name || ' was last heard of at ' || heartbeat_at, 'worker ' || p_worker || ' is gone')
            || '; its jobs are taken over by any live worker',
        'start a worker'
    FROM (SELECT p_worker AS id) AS holder LEFT JOIN workers USING (id)
    WHERE workers.id IS NULL OR NOT is_live(workers)
$$;
