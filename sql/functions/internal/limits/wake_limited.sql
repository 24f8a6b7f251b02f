-- Makes tokens of the best jobs that wait for these keys: in each queue as many as could start,
-- because another queue may have no worker. Jobs that lanes wait for go first. With p_frees, each
-- mention of a key first gives a slot back; tokens of a rate do not come back. Returns the queues
-- whose workers must be woken. The caller has locked the keys, in an earlier statement.
--
-- No slot is reserved for these jobs. One of them may wait for a lane whose job waits for the slot,
-- or an open transaction may have it or its lane locked. While jobs that could start still wait,
-- claims check again and again.
--
-- One statement handles all keys, since a call may end jobs of a hundred, and a short one suffices
-- if no job waits for any of them.
CREATE OR REPLACE FUNCTION wake_limited(p_keys text[], p_frees boolean DEFAULT false)
    RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[];
BEGIN
    IF (SELECT true FROM jobs WHERE status = 'limited' AND limit_key = ANY (p_keys) LIMIT 1)
        IS NULL THEN
        UPDATE limit_keys
        SET used = CASE WHEN p_frees THEN greatest(used - named.times, 0) ELSE used END,
            look_at = NULL
        FROM (SELECT key, count(*) AS times FROM unnest(p_keys) AS key GROUP BY key) AS named
        WHERE limit_keys.key = ANY (ARRAY[named.key]);
        RETURN '{}';
    END IF;

    WITH room AS MATERIALIZED (
        SELECT own.key, own.used, now.tokens, now.refilled_at, own.look_at, now.next_at,
            least(coalesce(now.free, 1000), 1000) AS free,
            ARRAY(SELECT queue FROM limited_queues(own.key) AS queue) AS queues
        FROM (SELECT key, count(*) AS times FROM unnest(p_keys) AS key GROUP BY key) AS named
        CROSS JOIN LATERAL (
            SELECT key, CASE WHEN p_frees THEN greatest(used - named.times, 0)::integer
                             ELSE used END AS used, tokens, refilled_at, look_at
            FROM limit_keys WHERE limit_keys.key = named.key LIMIT 1
        ) AS own
        LEFT JOIN LATERAL find_limit(own.key) AS rule ON true
        CROSS JOIN LATERAL fold_key(own, rule) AS now
    ), best AS MATERIALIZED (
        SELECT room.*, ARRAY(
            SELECT job.id FROM unnest(room.queues) AS q(queue)
            CROSS JOIN LATERAL (
                SELECT jobs.id FROM jobs
                WHERE jobs.status = 'limited' AND jobs.limit_key = room.key
                    AND jobs.queue = q.queue
                ORDER BY
                    (was_attempted AND on_retry = 'hold' AND lock IS NOT NULL) DESC,
                    priority DESC, id
                LIMIT greatest(room.free, 0)
                FOR UPDATE SKIP LOCKED
            ) AS job) AS ids
        FROM room
    ), woken AS (
        UPDATE jobs SET status = 'todo'
        WHERE jobs.id = ANY (ARRAY(SELECT unnest(best.ids) FROM best))
    ), judged AS MATERIALIZED (
        SELECT best.*, CASE
            WHEN queues = '{}' THEN NULL
            WHEN free <= 0 THEN next_at
            WHEN (SELECT true FROM jobs
                  WHERE status = 'limited' AND limit_key = best.key
                  OFFSET cardinality(best.ids) LIMIT 1)   -- jobs other than these
            THEN least(next_at, clock() + CASE WHEN cardinality(ids) >= 1000 THEN interval '0.1 s'
                WHEN ids = '{}' THEN interval '1 s' ELSE interval '5 s' END) END AS next_look
        FROM best
    ), noted AS (
        -- Keep a planned look, so that the row's index entry stays, but not one that is due now: in
        -- a test, the clock may stand still.
        UPDATE limit_keys
        SET used = judged.used, tokens = judged.tokens, refilled_at = judged.refilled_at,
            look_at = CASE WHEN judged.look_at > clock() AND judged.look_at <= judged.next_look
                           THEN judged.look_at ELSE judged.next_look END
        FROM judged WHERE limit_keys.key = ANY (ARRAY[judged.key])
    )
    SELECT array_agg(queue) INTO v_result
    FROM judged CROSS JOIN LATERAL unnest(judged.queues) AS queue
    WHERE free > 0 OR next_look < coalesce(look_at, 'infinity');
    RETURN coalesce(v_result, '{}');
END $$;
