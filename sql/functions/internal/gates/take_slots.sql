-- Decides which of these jobs may start, and takes a slot and a token for each one that has a
-- limit. The caller holds the lanes of the jobs, or their rows.
--   ids     the jobs to start, including those without a gate
--   closed  the gates that are closed: no slot or token is left, the task is paused (p_paused), or
--           the gate stays locked. Their jobs now wait there (close_gates).
--   lacks   true if a job stays as it is because it could not begin at once: only p_slots can. More
--           start only if their limit has no rate, and half of its slots stay free for other
--           workers. A limit that rarely binds then costs little. Nothing behind such a job starts:
--           it would take the next slot, and the job would wait for as long as others are ready.
-- Other jobs stay as they are and are met again because the pause of their task has just ended.
--
-- Never waits. Of limits that have a rate, or no row yet, it tries no more than it may need: jobs
-- with a rate are not claimed ahead, and a new row can keep an advisory lock until the end of the
-- transaction. If all slots of the worker are busy, it tries one limit.
--
-- A job that has expired gets no slot, because start_jobs would refuse it. A job of a paused task
-- takes none either: it waits at the gate of its task, and passes that of its limit later.
--
-- Whoever opens a gate locks it before it looks for jobs there. If a job starts to wait under the
-- lock of its gate, either that session sees this job, or we see what has opened the gate: a slot
-- that was given back, or the end of the pause. If another session has the gate locked, we leave a
-- row, and a later claim checks the gate again (check_gates). The job is met again, since most
-- locks are brief. But if there is already a row that is not new, the job waits, to be out of the
-- way of others.
--
-- A claim checks again some seconds after a job has become `limited`: another session may be
-- raising the limit, and neither we nor it can see the other's change yet. The end of a pause
-- always leaves a row (end_pauses).
CREATE OR REPLACE FUNCTION take_slots(p_ids bigint[], p_slots integer, p_paused text[],
    OUT ids bigint[], OUT closed text[], OUT lacks boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_most  integer := CASE WHEN p_slots > 0 THEN least(2 * p_slots + 20, 500) ELSE 1 END;
    v_ids   bigint[];   -- the jobs with a gate: those with a limit first, the best first
    v_keys  text[];     -- their gates
    v_asked text[];     -- the gates to try
    v_gates text[];     -- those that we have locked
    v_busy  text[];     -- those that another session has locked
    v_stuck text[];     -- those that have been locked for some time
    v_late  bigint[];
BEGIN
    SELECT array_agg(id), array_agg(key) INTO v_ids, v_keys
    FROM (
        SELECT id, next_gate(task IN (SELECT unnest(p_paused)), task, limit_key) AS key
        FROM jobs
        WHERE id = ANY (p_ids)
        ORDER BY task IN (SELECT unnest(p_paused)), priority DESC, id
    ) AS gated
    WHERE key IS NOT NULL;
    v_asked := ARRAY(
        SELECT DISTINCT key FROM unnest(v_keys) WITH ORDINALITY AS gated(key, rank)
        WHERE rank <= v_most OR key >= 'task:'
            OR p_slots > 0 AND key IN (
                SELECT key FROM gates WHERE key = ANY (v_keys) AND refilled_at IS NULL));
    v_gates := try_lock_gates(v_asked, true);
    IF cardinality(v_gates) < cardinality(v_asked) THEN
        v_busy := ARRAY(SELECT unnest(v_asked) EXCEPT SELECT unnest(v_gates));
        v_stuck := ARRAY(SELECT busy FROM unnest(v_busy) AS busy WHERE (
            SELECT true FROM gate_looks WHERE key = busy AND left_at < clock() - interval '0.1 s'
            LIMIT 1));
        INSERT INTO gate_looks (key, left_at)
        SELECT busy, clock() FROM unnest(v_busy) AS busy
        WHERE busy IN (SELECT unnest(v_stuck))
            OR (SELECT true FROM gate_looks WHERE key = busy LIMIT 1) IS NULL;
    END IF;

    WITH line AS (
        SELECT key, array_agg(id ORDER BY rank) AS ids,
            count(*) FILTER (WHERE rank <= v_most OR key >= 'task:') AS best
        FROM unnest(v_ids, v_keys) WITH ORDINALITY AS gated(id, key, rank)
        WHERE key IN (SELECT unnest(v_asked))
        GROUP BY key
    ), gate AS MATERIALIZED (
        SELECT line.key, line.ids, line.best, room.*, own.key IS NULL AS is_busy,
            CASE WHEN rule.rate IS NULL
                 THEN coalesce(room.free - rule.slots / 2, cardinality(v_ids)) END AS spare
        FROM line
        LEFT JOIN LATERAL (
            SELECT * FROM gates WHERE gates.key = line.key AND line.key IN (SELECT unnest(v_gates))
            LIMIT 1
        ) AS own ON true
        LEFT JOIN LATERAL gate_rule(own.key) AS rule ON true
        LEFT JOIN LATERAL fold_key(own, rule) AS room ON own.key IS NOT NULL
    ), job AS (
        SELECT mine.id, gate.key, mine.priority, gate.tokens, gate.refilled_at, gate.next_at,
            gate.spare, gate.is_busy, gate.key >= 'task:' AS is_paused,
            CASE WHEN NOT gate.is_busy THEN coalesce(gate.free, cardinality(v_ids))
                 WHEN gate.key IN (SELECT unnest(v_stuck)) THEN 0 END AS free,
            row_number() OVER (PARTITION BY gate.key ORDER BY mine.priority DESC, mine.id) AS place
        FROM gate
        CROSS JOIN LATERAL unnest(gate.ids[:greatest(gate.best, gate.spare)]) AS wanted(id)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority FROM jobs
            WHERE jobs.id = ANY (ARRAY[wanted.id]) AND status IN ('todo', 'blocked')
                AND (task IN (SELECT unnest(p_paused)) OR expires_at IS NULL OR was_attempted
                    OR expires_at > clock())
                AND next_gate(task IN (SELECT unnest(p_paused)), task, limit_key) = gate.key
            FOR UPDATE SKIP LOCKED
        ) AS mine
    ), judged AS (
        SELECT *, place <= free AS fits FROM job
        UNION ALL
        SELECT id, NULL, priority, NULL, NULL, NULL, NULL, false, false, NULL, NULL, true
        FROM jobs
        WHERE id = ANY (p_ids) AND limit_key IS NULL AND task NOT IN (SELECT unnest(p_paused))
    ), ranked AS (
        SELECT *, fits AND NOT is_paused AND place > coalesce(spare, 0)
            AND p_slots < row_number() OVER (PARTITION BY fits ORDER BY priority DESC, id)
            AS is_early
        FROM judged
    ), started AS (
        SELECT *, fits AND NOT is_paused
            AND bool_or(is_early) OVER (ORDER BY priority DESC, id) IS NOT TRUE AS starts
        FROM ranked
    ), counted AS MATERIALIZED (
        -- A slot that stays free would wake no job.
        SELECT *, NOT fits
            AND count(*) FILTER (WHERE starts) OVER (PARTITION BY key) >= free AS must_wait
        FROM started
    ), taken AS (
        UPDATE gates
        SET used = gates.used + part.starts, tokens = part.tokens - part.starts,
            refilled_at = part.refilled_at,
            look_at = least(gates.look_at, part.look_at)
        FROM (
            SELECT key, max(tokens) AS tokens, max(refilled_at) AS refilled_at,
                CASE WHEN bool_or(must_wait AND NOT is_paused)
                     THEN least(max(next_at), clock() + interval '5 s') END AS look_at,
                count(*) FILTER (WHERE starts) AS starts
            FROM counted WHERE key IS NOT NULL AND NOT is_busy GROUP BY key
        ) AS part
        WHERE gates.key = ANY (ARRAY[part.key]) AND (
            part.starts > 0 OR part.look_at < coalesce(gates.look_at, 'infinity'))
    )
    SELECT coalesce(array_agg(id) FILTER (WHERE starts), '{}'),
        array_agg(id) FILTER (WHERE must_wait),
        coalesce(array_agg(DISTINCT key) FILTER (WHERE must_wait), '{}'),
        coalesce(bool_or(is_early), false)
    INTO ids, v_late, closed, lacks FROM counted;
    PERFORM close_gates(closed, v_late, p_paused) WHERE v_late IS NOT NULL;
END $$;
