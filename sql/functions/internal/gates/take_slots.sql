-- Decides which of these jobs may start, and takes a slot and a token for each one that has a
-- limit. The caller holds the lanes of the jobs, or their rows.
--   ids      the jobs to start, including those without a gate
--   closed   the gates that are closed: no slot or token is left, the task is paused (p_paused), or
--            the gate stays locked. Their jobs now wait there (close_gates).
--   lacking  the first job that stays as it is because it could not begin at once: only p_slots
--            can. More start only if their limit has no rate, and half of its slots stay free for
--            other workers. A limit that rarely binds then costs little. Nothing behind such a job
--            starts: it would take the next slot, and the job would wait for as long as others are
--            ready.
--   ahead    some of the tokens come later than now (see start_jobs)
-- Other jobs stay as they are and are met again because the pause of their task has just ended.
--
-- Of limits that have a rate, or no row yet, it tries no more than it may need: jobs with a rate
-- are not claimed ahead, and a new row can keep an advisory lock until the end of the transaction.
-- If all slots of the worker are busy, it tries one limit. It skips gates that are locked.
--
-- A job that has expired gets no slot, because start_jobs would refuse it. A job of a paused task
-- takes none either: it waits at the gate of its task, and passes that of its limit later.
--
-- Whoever opens a gate locks it before it looks for jobs there. If a job starts to wait under the
-- lock of its gate, either that session sees this job, or we see what has opened the gate: a slot
-- that was given back, or the end of the pause. If another session has the gate locked, the job is
-- met again, since most locks are brief, unless the gate stays locked (note_busy_gates, which also
-- explains p_waits).
--
-- A claim checks again some seconds after a job has become `limited`: another session may be
-- raising the limit, and neither we nor it can see the other's change yet. The end of a pause
-- always leaves a row (end_pauses).
CREATE OR REPLACE FUNCTION take_slots(p_ids bigint[], p_slots integer, p_paused text[],
    p_waits boolean DEFAULT false,
    OUT ids bigint[], OUT closed text[], OUT lacking bigint, OUT ahead boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_most  integer := CASE WHEN p_slots > 0 THEN least(p_slots + 20, 500) ELSE 1 END;
    v_best  bigint;     -- the rank of the last of so many jobs with a gate
    v_ids   bigint[];   -- the jobs that we have locked, the best first, those of paused tasks last
    v_keys  text[];     -- their gates, or NULL
    v_asked text[];     -- the gates to try
    v_gates text[];     -- those that we have locked
    v_stuck text[];     -- those that others have locked for some time
    v_late  bigint[];
BEGIN
    SELECT array_agg(id), array_agg(key) INTO v_ids, v_keys
    FROM (
        SELECT id, next_gate(task IN (SELECT unnest(p_paused)), task, limit_key) AS key
        FROM jobs
        WHERE id = ANY (p_ids) AND status IN ('todo', 'blocked')
            AND (task IN (SELECT unnest(p_paused)) OR expires_at IS NULL OR was_attempted
                OR expires_at > clock())
        ORDER BY task IN (SELECT unnest(p_paused)), priority DESC, id
        FOR UPDATE SKIP LOCKED
    ) AS mine;
    v_best := (
        SELECT rank FROM unnest(v_keys) WITH ORDINALITY AS job(key, rank) WHERE key IS NOT NULL
        ORDER BY rank OFFSET v_most - 1 LIMIT 1);
    v_asked := ARRAY(
        SELECT DISTINCT key FROM unnest(v_keys) WITH ORDINALITY AS job(key, rank)
        WHERE key IS NOT NULL AND ((rank > v_best) IS NOT TRUE OR key >= 'task:'
            OR p_slots > 0 AND key IN (
                SELECT own.key FROM (SELECT DISTINCT unnest(v_keys) AS key) AS named
                CROSS JOIN LATERAL (
                    SELECT gates.key, gates.refilled_at FROM gates WHERE gates.key = named.key
                    ORDER BY gates.version DESC LIMIT 1
                ) AS own
                WHERE own.refilled_at IS NULL)));
    v_gates := try_lock_gates(v_asked, true);
    IF cardinality(v_gates) < cardinality(v_asked) THEN
        SELECT * INTO v_gates, v_stuck FROM note_busy_gates(v_asked, v_gates, cardinality(v_ids),
            p_waits AND array_position(v_keys, NULL) IS NULL);
    END IF;

    WITH line AS (
        SELECT key, array_agg(id ORDER BY rank) AS ids, array_agg(rank ORDER BY rank) AS ranks,
            count(*) FILTER (WHERE (rank > v_best) IS NOT TRUE OR key >= 'task:') AS best
        FROM unnest(v_ids, v_keys) WITH ORDINALITY AS job(id, key, rank)
        -- A plain IN could become a nested loop over both lists.
        WHERE coalesce(key IN (SELECT unnest(v_asked)), false)
        GROUP BY key
    ), gate AS (
        SELECT line.*, room.tokens, room.refilled_at, room.next_at, own.key IS NULL AS is_busy,
            CASE WHEN own.key IS NOT NULL THEN coalesce(room.free, cardinality(v_ids))
                 WHEN line.key IN (SELECT unnest(v_stuck)) THEN 0 END AS free,
            CASE WHEN rule.rate IS NULL
                 THEN coalesce(room.free - rule.slots / 2, cardinality(v_ids)) ELSE 0 END AS spare
        FROM line
        LEFT JOIN LATERAL (
            SELECT * FROM gates WHERE gates.key = line.key AND line.key IN (SELECT unnest(v_gates))
            ORDER BY gates.version DESC LIMIT 1
        ) AS own ON true
        LEFT JOIN LATERAL gate_rule(own.key) AS rule ON true
        LEFT JOIN LATERAL fold_key(own, rule) AS room ON own.key IS NOT NULL
    ), judged AS MATERIALIZED (
        SELECT *, gate.ids[greatest(free, 0) + 1:best] AS late,
            CASE WHEN key < 'task:' AND NOT is_busy THEN least(free, greatest(best, spare))
                 ELSE 0 END AS fitting
        FROM gate
    ), early AS MATERIALIZED (
        SELECT min(rank) AS rank
        FROM (
            SELECT rank, is_dear, count(*) OVER (ORDER BY rank) AS place
            FROM (
                SELECT job.rank, job.place > spare AS is_dear
                FROM judged
                CROSS JOIN LATERAL unnest(ranks[:fitting]) WITH ORDINALITY AS job(rank, place)
                UNION ALL
                SELECT rank, false FROM unnest(v_keys) WITH ORDINALITY AS job(key, rank)
                WHERE key IS NULL
            ) AS fitting
        ) AS started
        WHERE is_dear AND place > p_slots
    ), part AS MATERIALIZED (
        SELECT *, starts >= free AND late <> '{}' AS is_closed   -- a free slot would wake no job
        FROM judged
        CROSS JOIN LATERAL (
            SELECT count(*)::integer AS starts FROM early, unnest(ranks[:fitting]) AS job(rank)
            WHERE (job.rank < early.rank) IS NOT FALSE
        ) AS mine
    ), taken AS (
        UPDATE gates
        SET used = gates.used + part.starts, tokens = part.tokens - part.starts,
            refilled_at = part.refilled_at,
            look_at = least(gates.look_at, part.look_at),
            version = next_version(gates.version, gates.look_at)
        FROM (
            SELECT *, CASE WHEN is_closed AND key < 'task:'
                           THEN least(next_at, clock() + interval '5 s') END AS look_at
            FROM part WHERE NOT is_busy
        ) AS part
        WHERE gates.ctid = (
                SELECT own.ctid FROM gates AS own WHERE own.key = part.key
                ORDER BY own.version DESC LIMIT 1)
            AND (part.starts > 0 OR part.look_at < coalesce(gates.look_at, 'infinity'))
    )
    SELECT ARRAY(SELECT unnest(part.ids[:part.starts]) FROM part
            UNION ALL
            SELECT id FROM unnest(v_ids, v_keys) WITH ORDINALITY AS job(id, key, rank)
            WHERE key IS NULL AND (rank < early.rank) IS NOT FALSE),
        ARRAY(SELECT unnest(late) FROM part WHERE is_closed),
        ARRAY(SELECT key FROM part WHERE is_closed),
        v_ids[early.rank::integer],
        (SELECT true FROM part WHERE starts > 0 AND refilled_at > clock() LIMIT 1)
    INTO ids, v_late, closed, lacking, ahead FROM early;
    PERFORM close_gates(closed, v_late, p_paused) WHERE closed <> '{}';
END $$;
