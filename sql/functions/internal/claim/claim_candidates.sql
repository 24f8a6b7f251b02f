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
                WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL AND jobs.group_key IS NULL
                  AND jobs.queue::text = q.queue LIMIT 1) LIMIT 1) AS lanes
    INTO v_free
    FROM (
        SELECT f.* FROM unnest(r.queues, p_shares) AS q(queue, share)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority, jobs.limit_key IS NOT NULL AS limited FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue::text = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT q.share
            FOR UPDATE SKIP LOCKED
        ) AS f
        ORDER BY f.priority DESC, f.id
        LIMIT r.wanted
    ) AS best;
    IF v_free.lanes THEN
        r := lane_candidates(r, v_free.ids, v_free.priorities, v_free.limited);
        RETURN;
    END IF;
    -- No lane has a token, as in most queues.
    SELECT coalesce(v_free.ids, '{}'), coalesce(v_free.has_limits, false), '{}', '{}', '{}', NULL,
        NULL, NULL, false, 2000
    INTO r.ids, r.limited, r.lanes, r.seen, r.several, r.behind, r.behind_locks, r.shut, r.more,
        r.widest;
END $$;
