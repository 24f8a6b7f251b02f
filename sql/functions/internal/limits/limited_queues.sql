-- Returns the queues in which jobs wait for this key. Takes one index probe per queue. Inlined in a
-- FROM clause.
CREATE OR REPLACE FUNCTION limited_queues(p_key text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE found(queue) AS (
        (SELECT jobs.queue::text FROM jobs WHERE status = 'limited' AND limit_key = p_key
         ORDER BY jobs.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.queue::text FROM jobs
                WHERE status = 'limited' AND limit_key = p_key AND jobs.queue > found.queue
                ORDER BY jobs.queue LIMIT 1)
        FROM found WHERE found.queue IS NOT NULL
    )
    SELECT found.queue FROM found WHERE found.queue IS NOT NULL
$$;
