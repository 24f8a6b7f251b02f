-- Decides which of these jobs may start, and takes a slot and a token of its limit for each one
-- that has a limit. The caller holds the lanes of the jobs, or their rows.
--   ids  the jobs to start, those without a limit among them
--   full_keys  the keys that have no slot or token left. Their jobs become `limited`.
-- Other jobs stay as they are, and are met again: another session has their key locked, or they
-- could not begin at once (at most p_slots can). It never waits.
--
-- A job that has expired gets no slot, since start_jobs would refuse it.
--
-- A job becomes `limited` only under the lock of its key. The end of a job takes the same lock
-- before it looks for the next job of the key. So either it sees this job, or we see its slot.
CREATE OR REPLACE FUNCTION take_slots(p_ids bigint[], p_slots integer, OUT ids bigint[],
    OUT full_keys text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_keys  text[];
    v_free  integer[];
    v_mine  bigint[];
    v_taken text[];
    v_late  bigint[];
BEGIN
    v_keys := try_lock_keys(ARRAY(
        SELECT DISTINCT limit_key::text FROM jobs
        WHERE id = ANY (p_ids) AND limit_key IS NOT NULL AND status IN ('todo', 'blocked')));
    v_mine := ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY (p_ids) AND coalesce(limit_key IN (SELECT unnest(v_keys)), false)
            AND status IN ('todo', 'blocked')
            AND (expires_at IS NULL OR was_attempted OR expires_at > clock())
        ORDER BY id FOR UPDATE SKIP LOCKED);
    v_free := ARRAY(
        SELECT coalesce(fold_key(key), cardinality(p_ids))
        FROM unnest(v_keys) WITH ORDINALITY AS locked(key, place) ORDER BY place);

    WITH job AS (
        SELECT jobs.id, jobs.limit_key::text AS key, jobs.priority,
            jobs.id IN (SELECT unnest(v_mine)) AS is_mine, locked.free,
            row_number() OVER (
                PARTITION BY jobs.limit_key, jobs.id IN (SELECT unnest(v_mine))
                ORDER BY jobs.priority DESC, jobs.id) AS place
        FROM jobs LEFT JOIN unnest(v_keys, v_free) AS locked(key, free)
            ON locked.key = jobs.limit_key
        WHERE jobs.id = ANY (p_ids)
    ), judged AS (
        SELECT job.id, job.key, job.is_mine, job.free,
            job.key IS NULL OR job.is_mine AND place <= free AS fits,
            row_number() OVER (
                PARTITION BY job.key IS NULL OR job.is_mine AND place <= free
                ORDER BY priority DESC, job.id) AS place
        FROM job
    ), started AS (
        SELECT *, fits AND (key IS NULL OR place <= p_slots) AS starts FROM judged
    ), counted AS (
        -- A slot that is left would wake nobody.
        SELECT *, is_mine AND NOT fits
            AND count(*) FILTER (WHERE starts) OVER (PARTITION BY key) >= free AS must_wait
        FROM started
    )
    SELECT coalesce(array_agg(id) FILTER (WHERE starts), '{}'),
        array_agg(key) FILTER (WHERE starts AND key IS NOT NULL),
        array_agg(id) FILTER (WHERE must_wait),
        coalesce(array_agg(DISTINCT key) FILTER (WHERE must_wait), '{}')
    INTO ids, v_taken, v_late, full_keys FROM counted;

    IF v_taken IS NOT NULL THEN
        UPDATE limit_keys SET used = used + taken.count, tokens = tokens - taken.count
        FROM (SELECT key, count(*) FROM unnest(v_taken) AS key GROUP BY key) AS taken
        WHERE limit_keys.key = ANY (ARRAY[taken.key]);
    END IF;
    IF v_late IS NOT NULL THEN
        UPDATE jobs SET status = 'limited' WHERE jobs.id = ANY (v_late);
    END IF;
    PERFORM plan_look(v_keys);
END $$;
