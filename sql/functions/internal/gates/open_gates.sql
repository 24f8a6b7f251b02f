-- Makes tokens of the best jobs that wait at these gates: in each queue as many as could pass,
-- because another queue may have no worker. Jobs that lanes wait for go first. With p_frees, each
-- mention of a gate first gives a slot back; tokens of a rate do not come back. Returns the queues
-- whose workers must be woken. The caller has locked the gates, in an earlier statement: a row
-- that another session changes meanwhile would keep its slots.
--
-- No slot is reserved for these jobs. One of them may wait for a lane whose job waits for the slot,
-- or an open transaction may have it or its lane locked. While jobs that could start still wait,
-- claims check again and again.
--
-- Bounded: of a gate that is open to any number, 1,000 jobs, or fewer if there are many gates, but
-- at least 100. The rest follow at the next claims.
--
-- One statement handles all gates, since a call may end jobs of a hundred, and a short one suffices
-- if no job waits at any of them.
CREATE OR REPLACE FUNCTION open_gates(p_gates text[], p_frees boolean DEFAULT false)
    RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[];
BEGIN
    IF (SELECT true FROM gated_jobs WHERE gate = ANY (p_gates) LIMIT 1) IS NULL THEN
        UPDATE gates
        SET used = CASE WHEN p_frees THEN greatest(used - named.times, 0) ELSE used END,
            version = next_version(gates.version, gates.look_at), look_at = NULL
        FROM (SELECT key, count(*) AS times FROM unnest(p_gates) AS key GROUP BY key) AS named
        WHERE gates.ctid = (
            SELECT own.ctid FROM gates AS own WHERE own.key = named.key
            ORDER BY own.version DESC LIMIT 1);
        RETURN '{}';
    END IF;

    WITH room AS MATERIALIZED (
        SELECT own.key, own.used, now.tokens, now.refilled_at, own.look_at, now.next_at,
            least(coalesce(now.free, most), most) AS free, most, now.free IS NULL AS is_open,
            now.free > most AS is_cut,
            ARRAY(SELECT queue FROM gate_queues(own.key) AS queue) AS queues
        FROM (
            SELECT key, count(*) AS times, greatest(1000 / count(*) OVER (), 100) AS most
            FROM unnest(p_gates) AS key GROUP BY key
        ) AS named
        CROSS JOIN LATERAL (
            SELECT key, CASE WHEN p_frees THEN greatest(used - named.times, 0)::integer
                             ELSE used END AS used, tokens, refilled_at, look_at, version
            FROM gates WHERE gates.key = named.key ORDER BY gates.version DESC LIMIT 1
        ) AS own
        LEFT JOIN LATERAL gate_rule(own.key) AS rule ON true
        CROSS JOIN LATERAL fold_key(own, rule) AS now
    ), best AS MATERIALIZED (
        SELECT room.*, ARRAY(
            SELECT job.id FROM unnest(room.queues) AS q(queue)
            CROSS JOIN LATERAL (
                SELECT waiting.id FROM gated_jobs AS waiting
                WHERE waiting.gate = room.key AND waiting.queue = q.queue
                ORDER BY waiting.is_awaited DESC, waiting.priority DESC, waiting.id
                LIMIT CASE WHEN room.is_open THEN 1 + (room.most - 1) / cardinality(room.queues)
                           ELSE greatest(room.free, 0) END
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
            WHEN (SELECT true FROM gated_jobs WHERE gate = best.key
                  OFFSET cardinality(best.ids) LIMIT 1)   -- jobs other than these
            THEN least(next_at, clock() + CASE WHEN ids = '{}' THEN interval '1 s'
                WHEN is_open THEN interval '0'
                WHEN is_cut THEN interval '0.1 s'
                ELSE interval '5 s' END) END AS next_look
        FROM best
    ), noted AS (
        -- Keep a planned look, so that the row's index entry stays, but not one that is due now: in
        -- a test, the clock may stand still.
        UPDATE gates
        SET used = judged.used, tokens = judged.tokens, refilled_at = judged.refilled_at,
            version = next_version(gates.version, gates.look_at),
            look_at = CASE WHEN judged.look_at > clock() AND judged.look_at <= judged.next_look
                           THEN judged.look_at ELSE judged.next_look END
        FROM judged
        WHERE gates.ctid = (
            SELECT own.ctid FROM gates AS own WHERE own.key = judged.key
            ORDER BY own.version DESC LIMIT 1)
    )
    SELECT array_agg(queue) INTO v_result
    FROM judged CROSS JOIN LATERAL unnest(judged.queues) AS queue
    WHERE free > 0 OR next_look < coalesce(look_at, 'infinity');
    RETURN coalesce(v_result, '{}');
END $$;
