-- Decides which of these jobs may start, and takes a slot and a token for each one that has a
-- limit. The caller holds the lanes of the jobs, or their rows.
--   ids  the jobs to start, including those without a limit
--   full_keys  the keys that have no slot or token left, or stay locked. Their jobs become
--              `limited`.
-- Other jobs stay as they are and are met again, because they could not begin at once (at most
-- p_slots can). Never waits. It tries no more keys than it may need, because each can keep an
-- advisory lock until the end of the transaction.
--
-- A job that has expired gets no slot, because start_jobs would refuse it.
--
-- The end of a job locks its key before it looks for the next job. If a job becomes `limited` under
-- the lock of its key, either the end sees this job, or we see its slot. If another session has the
-- key locked, we leave a row, and a later claim checks the key again (resume_keys). The job is met
-- again, since most locks are brief. But if there is already a row that is not new, the job becomes
-- `limited`, to be out of the way of others.
--
-- A claim checks again some seconds after a job has become `limited`: another session may be
-- raising the limit, and neither we nor it can see the other's change yet.
CREATE OR REPLACE FUNCTION take_slots(p_ids bigint[], p_slots integer, OUT ids bigint[],
    OUT full_keys text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_mine  bigint[];
    v_asked text[];   -- the keys of these jobs
    v_keys  text[];   -- those that we have locked
    v_busy  text[];   -- those that another session has locked
    v_stuck text[];   -- those that have been locked for some time
    v_late  bigint[];
BEGIN
    v_mine := ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY (p_ids) AND limit_key IS NOT NULL AND status IN ('todo', 'blocked')
            AND (expires_at IS NULL OR was_attempted OR expires_at > clock())
        ORDER BY priority DESC, id
        LIMIT CASE WHEN p_slots > 0 THEN least(2 * p_slots + 20, 500) ELSE 0 END
        FOR UPDATE SKIP LOCKED);
    v_asked := ARRAY(SELECT DISTINCT limit_key::text FROM jobs WHERE id = ANY (v_mine));
    v_keys := try_lock_keys(v_asked);
    IF cardinality(v_keys) < cardinality(v_asked) THEN
        v_busy := ARRAY(SELECT unnest(v_asked) EXCEPT SELECT unnest(v_keys));
        v_stuck := ARRAY(SELECT busy FROM unnest(v_busy) AS busy WHERE (
            SELECT true FROM limit_looks WHERE key = busy AND left_at < clock() - interval '0.1 s'
            LIMIT 1));
        INSERT INTO limit_looks (key, left_at)
        SELECT busy, clock() FROM unnest(v_busy) AS busy
        WHERE busy IN (SELECT unnest(v_stuck))
            OR (SELECT true FROM limit_looks WHERE key = busy LIMIT 1) IS NULL;
    END IF;

    WITH own AS MATERIALIZED (
        SELECT key, room.*
        FROM limit_keys
        LEFT JOIN LATERAL find_limit(key) AS rule ON true
        CROSS JOIN LATERAL fold_key(limit_keys, rule) AS room
        WHERE key = ANY (v_keys)
    ), job AS (
        SELECT jobs.id, jobs.limit_key::text AS key, jobs.priority, own.tokens, own.refilled_at,
            own.next_at, own.key IS NULL AS is_busy,
            CASE WHEN own.key IS NOT NULL THEN coalesce(own.free, cardinality(v_mine))
                 WHEN jobs.limit_key IN (SELECT unnest(v_stuck)) THEN 0 END AS free,
            row_number() OVER (
                PARTITION BY jobs.limit_key ORDER BY jobs.priority DESC, jobs.id) AS place
        FROM jobs LEFT JOIN own ON own.key = jobs.limit_key
        WHERE jobs.id = ANY (v_mine)
    ), judged AS (
        SELECT *, place <= free AS fits FROM job
        UNION ALL
        SELECT id, NULL, priority, NULL, NULL, NULL, false, NULL, NULL, true
        FROM jobs WHERE id = ANY (p_ids) AND limit_key IS NULL
    ), started AS (
        SELECT *, fits AND (key IS NULL OR p_slots >= row_number() OVER (
            PARTITION BY fits ORDER BY priority DESC, id)) AS starts
        FROM judged
    ), counted AS MATERIALIZED (
        -- A slot that stays free would wake no job.
        SELECT *, NOT fits
            AND count(*) FILTER (WHERE starts) OVER (PARTITION BY key) >= free AS must_wait
        FROM started
    ), taken AS (
        UPDATE limit_keys
        SET used = limit_keys.used + part.starts, tokens = part.tokens - part.starts,
            refilled_at = part.refilled_at,
            look_at = least(limit_keys.look_at, part.look_at)
        FROM (
            SELECT key, max(tokens) AS tokens, max(refilled_at) AS refilled_at,
                CASE WHEN bool_or(must_wait)
                     THEN least(max(next_at), clock() + interval '5 s') END AS look_at,
                count(*) FILTER (WHERE starts) AS starts
            FROM counted WHERE key IS NOT NULL AND NOT is_busy GROUP BY key
        ) AS part
        WHERE limit_keys.key = ANY (ARRAY[part.key]) AND (
            part.starts > 0 OR part.look_at < coalesce(limit_keys.look_at, 'infinity'))
    )
    SELECT coalesce(array_agg(id) FILTER (WHERE starts), '{}'),
        array_agg(id) FILTER (WHERE must_wait),
        coalesce(array_agg(DISTINCT key) FILTER (WHERE must_wait), '{}')
    INTO ids, v_late, full_keys FROM counted;

    IF v_late IS NOT NULL THEN
        UPDATE jobs SET status = 'limited' WHERE jobs.id = ANY (v_late);
    END IF;
END $$;
