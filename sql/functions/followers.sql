-- Which of the heads of these lanes are handed over: in a queue that the worker serves, no more than it wants, and only if no
-- other ready job comes before it by priority and id. Otherwise one deep lane would keep its worker from older jobs.
-- Not those of stopped lanes.
CREATE OR REPLACE FUNCTION followers(
    p_locks text[], p_claims uuid[], p_stopped text[], p_queues text[], p_want integer
)
RETURNS TABLE (lock text, id bigint, claim_id uuid)
LANGUAGE sql AS $$
    WITH first AS (
        SELECT ready.priority, ready.id
        FROM unnest(coalesce(p_queues, ready_queues())) AS q(queue)
        CROSS JOIN LATERAL (
            (SELECT NULL AS lock, jobs.priority, jobs.id FROM jobs
             WHERE jobs.status = 'todo' AND jobs.lock IS NULL AND jobs.queue = q.queue
             ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
            UNION ALL
            (SELECT jobs.lock, jobs.priority, jobs.id FROM jobs
             WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL AND jobs.queue = q.queue
             ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
        ) AS ready
        WHERE ready.lock IS NULL OR ready.lock <> ALL (p_locks)
        ORDER BY ready.priority DESC, ready.id
        LIMIT 1
    )
    SELECT lane.lock, head.id, lane.claim_id
    FROM unnest(p_locks, p_claims) AS lane(lock, claim_id)
    JOIN lane_heads(p_locks) AS head ON head.lock = lane.lock
    LEFT JOIN first ON true
    WHERE lane.lock <> ALL (p_stopped)
      AND (p_queues IS NULL OR head.queue = ANY (p_queues))
      AND (first.id IS NULL OR (head.priority, first.id) > (first.priority, head.id))
    ORDER BY head.priority DESC, head.id
    LIMIT p_want
$$;
