-- Returns more lanes, in order, for a claim that lost some of its choices to faster claims, which
-- may take a while to commit. None of them goes before a better free job that was not chosen.
CREATE OR REPLACE FUNCTION spare_lanes(
    p_queues text[], p_limit integer, p_windows integer[], p_lost text[], p_free bigint[],
    p_lanes integer,
    OUT locks text[], OUT seen bigint[]
)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(more.lock), array_agg(more.id) INTO locks, seen
    FROM (
        SELECT token.id, token.lock, token.priority
        FROM lane_tokens(p_queues, p_windows, p_lost) AS token
        WHERE token.open AND NOT token.several
        ORDER BY token.priority DESC, token.id LIMIT least(3 * p_limit, p_lanes)
    ) AS more
    LEFT JOIN (
        SELECT f.id, f.priority
        FROM unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue = q.queue
                AND jobs.id NOT IN (SELECT unnest(p_free))
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT 1
        ) AS f
        ORDER BY f.priority DESC, f.id LIMIT 1
    ) AS left_over ON true
    WHERE left_over.id IS NULL OR (more.priority, left_over.id) > (left_over.priority, more.id);
END $$;
