-- What a claim looks at: the best free jobs, and a window of lane tokens, without locks. With p_lock the free jobs are locked as they
-- are looked at, p_limit of each queue. So only for one queue, or for few jobs: what is locked and not among the best is out of
-- everybody's reach until the claim commits.
--   free    ids of free jobs that are among the best p_limit
--   lanes   locks among the best p_limit that can be won: nobody holds the lane, or it waits for the retry that we see; none of those
--           that the same claim has lost to another (p_lost), whose hold on them we cannot see before it commits
--   seen    the tokens of these lanes, in the same order
--   spare   more lanes, and in spare_seen their tokens, if some of these are lost: up to three times as many as all, and none that
--           comes after a free job that is left
--   behind  tokens that stand behind another job of their lane, and in behind_locks their lanes: to be blocked
--   more    the window was full, or there were more lanes than one call may take
CREATE OR REPLACE FUNCTION candidates(p_queues text[], p_limit integer, p_window integer, p_lost text[], p_lock boolean)
RETURNS TABLE (
    free bigint[], lanes text[], seen bigint[], spare text[], spare_seen bigint[], behind bigint[], behind_locks text[], more boolean
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH free AS MATERIALIZED (
        SELECT f.id, f.priority
        FROM unnest(CASE WHEN p_lock THEN p_queues END) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ) AS f
        UNION ALL
        SELECT f.id, f.priority
        FROM unnest(CASE WHEN NOT p_lock THEN p_queues END) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT p_limit
        ) AS f
    ), token AS MATERIALIZED (
        SELECT t.id, t.lock, t.priority,
            -- Whether the lane can be won for this token: of several tokens of a lane, for the best one.
            (lane.lock IS NULL OR (lane.job_id IS NOT DISTINCT FROM t.id AND lane.stopped IS NULL))
                AND t.lock <> ALL (p_lost)
                AND row_number() OVER (
                    PARTITION BY t.lock, lane.job_id IS NOT DISTINCT FROM t.id ORDER BY t.priority DESC, t.id) = 1 AS open
        FROM unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.lock, jobs.priority FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT p_window
        ) AS t
        LEFT JOIN lanes AS lane ON lane.lock = t.lock
    ), best AS (
        SELECT * FROM (
            SELECT free.id, free.priority, NULL AS lock FROM free
            UNION ALL
            -- Each lane takes an advisory lock, and the server's shared lock table is finite.
            (SELECT token.id, token.priority, token.lock FROM token WHERE open ORDER BY token.priority DESC, token.id LIMIT 128)
        ) AS startable
        ORDER BY priority DESC, id
        LIMIT p_limit
    ), chosen AS (
        SELECT array_agg(id) FILTER (WHERE lock IS NULL) AS free,
               array_agg(lock) FILTER (WHERE lock IS NOT NULL) AS lanes,
               array_agg(id) FILTER (WHERE lock IS NOT NULL) AS seen,
               count(lock) AS count
        FROM best
    ), spare AS (
        SELECT array_agg(more.lock) AS locks, array_agg(more.id) AS seen
        FROM (
            SELECT token.id, token.lock, token.priority FROM token WHERE open ORDER BY token.priority DESC, token.id
            OFFSET (SELECT count FROM chosen) LIMIT least(3 * p_limit, 128 - (SELECT count FROM chosen))
        ) AS more
        LEFT JOIN (
            SELECT free.id, free.priority FROM free ORDER BY free.priority DESC, free.id
            OFFSET (SELECT cardinality(free) FROM chosen) LIMIT 1
        ) AS left_over ON true
        WHERE left_over.id IS NULL OR (more.priority, left_over.id) > (left_over.priority, more.id)
    ), rest AS (
        SELECT array_agg(id) FILTER (WHERE NOT open) AS behind,
               array_agg(lock) FILTER (WHERE NOT open) AS behind_locks,
               count(*) >= p_window OR count(*) FILTER (WHERE open) > 128 AS more
        FROM token
    )
    SELECT coalesce(chosen.free, '{}'), coalesce(chosen.lanes, '{}'), coalesce(chosen.seen, '{}'), spare.locks, spare.seen,
           rest.behind, rest.behind_locks, rest.more
    FROM chosen, spare, rest;
END $$;
