-- Returns the queues in which jobs wait for this key. It takes one index probe per queue.
CREATE OR REPLACE FUNCTION limited_queues(p_key text) RETURNS SETOF text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE found(queue) AS (
        (SELECT jobs.queue FROM jobs WHERE status = 'limited' AND limit_key = p_key
         ORDER BY jobs.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.queue FROM jobs
                WHERE status = 'limited' AND limit_key = p_key AND jobs.queue > found.queue
                ORDER BY jobs.queue LIMIT 1)
        FROM found WHERE found.queue IS NOT NULL
    )
    SELECT found.queue::text FROM found WHERE found.queue IS NOT NULL;
END $$;
