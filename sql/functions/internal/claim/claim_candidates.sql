-- Reads the front for a claim: the best free jobs (locking their rows, without waiting), and a
-- window of lane tokens, without locks (see claim_round). Reads at most p_shares free jobs and
-- `windows` tokens in each queue (see front_shares).
CREATE OR REPLACE FUNCTION claim_candidates(INOUT r claim_round, p_shares integer[])
LANGUAGE plpgsql AS $$
DECLARE
    v_priorities integer[];
    v_limited    boolean[];
BEGIN
    SELECT coalesce(array_agg(best.id), '{}'), array_agg(best.priority), array_agg(best.limited),
        coalesce(bool_or(best.limited), false)
    INTO r.ids, v_priorities, v_limited, r.limited
    FROM (
        SELECT f.* FROM unnest(r.queues, p_shares) AS q(queue, share)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority, jobs.limit_key IS NOT NULL AS limited FROM jobs
            WHERE has_status(jobs.status, 'todo') AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue::text = q.queue
            ORDER BY jobs.priority USING >, jobs.id USING <
            LIMIT q.share
            FOR UPDATE SKIP LOCKED
        ) AS f
        ORDER BY f.priority USING >, f.id USING <
        LIMIT r.wanted
    ) AS best;
    IF r.tokens AND r.served IS NOT NULL THEN
        r.tokens := (SELECT true FROM jobs
            WHERE has_status(jobs.status, 'todo') AND jobs.lock IS NOT NULL
              AND jobs.group_key IS NULL AND jobs.queue::text = ANY (r.queues) LIMIT 1);
    END IF;
    IF r.tokens THEN   -- in most queues, no lane has one
        r := lane_candidates(r, v_priorities, v_limited);
    END IF;
END $$;
