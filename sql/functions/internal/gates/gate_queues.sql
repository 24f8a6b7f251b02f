-- Returns the queues in which jobs wait at this gate. Takes one index probe per queue. Inlined in a
-- FROM clause.
CREATE OR REPLACE FUNCTION gate_queues(p_gate text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE found(queue) AS (
        (SELECT queue FROM gated_jobs WHERE gate = p_gate ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT next.queue FROM gated_jobs AS next
                WHERE next.gate = p_gate AND next.queue > found.queue
                ORDER BY next.queue LIMIT 1)
        FROM found WHERE found.queue IS NOT NULL
    )
    SELECT found.queue FROM found WHERE found.queue IS NOT NULL
$$;
