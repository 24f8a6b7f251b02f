-- Returns the reasons among the workers that keep a job of this queue and task from running. If the
-- job waits for something else (p_waits), busy workers are not a reason: more of them would not
-- start it sooner.
CREATE OR REPLACE FUNCTION explain_workers(p_queue text, p_task text, p_waits boolean)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    WITH serving AS (
        SELECT workers.*, is_blocked(workers) AS blocked,
            (SELECT count(*) FROM jobs WHERE status = 'doing' AND worker_id = workers.id) AS busy
        FROM workers WHERE is_live(workers) AND (queues IS NULL OR p_queue = ANY (queues))
    ), knowing AS (
        SELECT count(*) AS workers, bool_and(blocked) AS blocked,
            bool_and(trouble IS NOT NULL) AS refused, min(trouble) AS trouble,
            CASE count(*) WHEN 1 THEN 'the only worker'
                          ELSE 'each of the ' || count(*) || ' workers' END
                || ' that could run it' AS who
        FROM serving WHERE tasks IS NULL OR p_task = ANY (tasks)
    )
    SELECT 'queue unserved',
        'no live worker serves queue ' || p_queue || coalesce(': ' || explain_read_only(), ''),
        CASE WHEN explain_read_only() IS NULL THEN 'queue worker --queues ' || p_queue END
    WHERE NOT EXISTS (SELECT FROM serving)
    UNION ALL
    SELECT 'task unknown', 'no worker of queue ' || p_queue || ' knows task ' || p_task,
        'deploy the code that declares it'
    FROM knowing WHERE EXISTS (SELECT FROM serving) AND workers = 0
    UNION ALL
    SELECT 'workers blocked',
        'the event loop of ' || who || ' is blocked; loop.blocked in the log shows the cause',
        'queue worker --queues ' || p_queue
    FROM knowing WHERE NOT p_waits AND blocked
    UNION ALL
    SELECT 'workers refused', 'the database refuses calls from ' || who || ': ' || trouble, NULL
    FROM knowing WHERE NOT p_waits AND refused
    UNION ALL
    SELECT 'slots busy',
        CASE sum(concurrency) WHEN 1 THEN 'the only slot of the only worker is taken'
            ELSE 'all ' || sum(concurrency) || ' slots of ' || count(*) || ' worker'
                || CASE count(*) WHEN 1 THEN '' ELSE 's' END || ' are taken' END,
        'queue worker --queues ' || p_queue
    FROM serving HAVING NOT p_waits AND count(*) > 0 AND bool_and(busy >= concurrency)
$$;
