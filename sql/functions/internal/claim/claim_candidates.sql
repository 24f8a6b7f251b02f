-- Reads the front for a claim: the best free jobs (locking their rows, without waiting), and a
-- window of lane tokens, without locks.
--   ids     free jobs among the best `wanted`
--   lanes   locks among the best that can be acquired (see lane_tokens), at most `lanes_left`
--   seen    the tokens of these lanes, in the same order
--   behind  tokens to block, because another job of their lane is ahead (lanes: behind_locks)
--   more    true if the window was full, or there were more lanes than `lanes_left`
--   widest  how wide the window may become: wider if many jobs in front stay locked
--   limited true if some of the free jobs have a limit
--   several tokens among the best that have several lanes or share one, the best first, at most
--           `lanes_left` / 8
--   shut    tokens like these that cannot start now, to be blocked
-- Reads at most p_shares free jobs and `windows` tokens in each queue (see front_shares).
CREATE OR REPLACE FUNCTION claim_candidates(INOUT r claim_round, p_shares integer[])
LANGUAGE plpgsql AS $$
DECLARE
    v_free record;
BEGIN
    SELECT array_agg(best.id) AS ids, array_agg(best.priority) AS priorities,
        array_agg(best.limited) AS limited, bool_or(best.limited) AS has_limits,
        (SELECT true FROM unnest(r.queues) AS q(queue)
         WHERE (SELECT true FROM jobs
                WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL
                  AND jobs.group_key IS NULL AND jobs.queue = q.queue LIMIT 1) LIMIT 1) AS lanes
    INTO v_free
    FROM (
        SELECT f.* FROM unnest(r.queues, p_shares) AS q(queue, share)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority, jobs.limit_key IS NOT NULL AS limited FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT q.share
            FOR UPDATE SKIP LOCKED
        ) AS f
        ORDER BY f.priority DESC, f.id
        LIMIT r.wanted
    ) AS best;
    IF v_free.lanes IS NULL THEN   -- no lane has a token, as in most queues
        r.ids := coalesce(v_free.ids, '{}');
        r.limited := coalesce(v_free.has_limits, false);
        r.lanes := '{}';
        r.seen := '{}';
        r.several := '{}';
        r.behind := NULL;
        r.behind_locks := NULL;
        r.shut := NULL;
        r.more := false;
        r.widest := 2000;
        RETURN;
    END IF;

    WITH token AS MATERIALIZED (
        SELECT * FROM lane_tokens(r.queues, r.windows, r.lost)
    ), best AS (
        SELECT * FROM (
            SELECT free.id, free.priority, NULL AS lock, free.limited, false AS several
            FROM unnest(v_free.ids, v_free.priorities, v_free.limited)
                AS free(id, priority, limited)
            UNION ALL
            (SELECT token.id, token.priority, token.lock, false, token.several FROM token
                WHERE open ORDER BY token.priority DESC, token.id LIMIT r.lanes_left)
        ) AS startable
        ORDER BY priority DESC, id
        LIMIT r.wanted
    ), chosen AS (
        SELECT array_agg(id) FILTER (WHERE lock IS NULL) AS free,
               array_agg(lock) FILTER (WHERE lock IS NOT NULL AND NOT best.several) AS lanes,
               array_agg(id) FILTER (WHERE lock IS NOT NULL AND NOT best.several) AS seen,
               (array_agg(id) FILTER (WHERE best.several))[:r.lanes_left / 8] AS several,
               bool_or(best.limited) AS limited
        FROM best
    ), rest AS (
        SELECT array_agg(id) FILTER (WHERE NOT open AND NOT token.several) AS behind,
               array_agg(lock) FILTER (WHERE NOT open AND NOT token.several) AS behind_locks,
               array_agg(id) FILTER (WHERE NOT open AND token.several) AS shut,
               count(*) >= r.reach OR count(*) FILTER (WHERE open) > r.lanes_left AS more,
               2000 + 8 * count(*) FILTER (WHERE touched AND NOT open) AS widest
        FROM token
    )
    SELECT coalesce(chosen.free, '{}'), coalesce(chosen.lanes, '{}'), coalesce(chosen.seen, '{}'),
           rest.behind, rest.behind_locks, rest.more, rest.widest,
           coalesce(chosen.limited, false), coalesce(chosen.several, '{}'), rest.shut
    INTO r.ids, r.lanes, r.seen, r.behind, r.behind_locks, r.more, r.widest, r.limited, r.several,
        r.shut
    FROM chosen, rest;
END $$;
