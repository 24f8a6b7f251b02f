-- What a claim looks at: the best free jobs (their rows locked, nobody waits), and a window of lane tokens, without locks.
--   free   ids of free jobs that are among the best p_limit
--   lanes  locks among the best p_limit that can be won: nobody holds the lane, or it waits for the retry that we see
--   seen   every token in the window, and `locks` their lanes: what cannot be started is blocked behind its lane
--   more   the window was full, or there were more lanes than one call may take
CREATE OR REPLACE FUNCTION candidates(p_queues text[], p_limit integer, p_window integer)
RETURNS TABLE (free bigint[], lanes text[], seen bigint[], locks text[], more boolean)
LANGUAGE sql AS $$
    WITH free AS MATERIALIZED (
        SELECT f.id, f.priority
        FROM unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ) AS f
    ), token AS MATERIALIZED (
        SELECT t.id, t.lock, t.priority
        FROM unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.lock, jobs.priority FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT p_window
        ) AS t
    ), open_lane AS (
        SELECT DISTINCT ON (token.lock) token.lock, token.id, token.priority
        FROM token LEFT JOIN lanes AS lane ON lane.lock = token.lock
        WHERE lane.lock IS NULL OR (lane.job_id = token.id AND lane.stopped IS NULL)
        ORDER BY token.lock, token.priority DESC, token.id
    ), best AS (
        SELECT * FROM (
            SELECT NULL AS lock, free.id, free.priority FROM free
            UNION ALL
            -- 64: each lane takes an advisory lock, and the server's shared lock table is finite.
            (SELECT * FROM open_lane ORDER BY priority DESC, id LIMIT 64)
        ) AS startable
        ORDER BY priority DESC, id
        LIMIT p_limit
    )
    SELECT
        coalesce((SELECT array_agg(id ORDER BY priority DESC, id) FROM best WHERE lock IS NULL), '{}'),
        coalesce((SELECT array_agg(lock) FROM best WHERE lock IS NOT NULL), '{}'),
        coalesce((SELECT array_agg(id) FROM token), '{}'),
        coalesce((SELECT array_agg(DISTINCT lock) FROM token), '{}'),
        (SELECT count(*) FROM token) >= p_window OR (SELECT count(*) FROM open_lane) > 64
$$;
