-- defer: creates one job, from a trigger, psql or another language: SELECT
-- inturn.defer('app.write', '{"letter": "a"}', lock => 'x'). The job exists if and only if the
-- transaction commits. A thin layer over defer_jobs that names the wrong argument in its errors. It
-- does not check how deeply the arguments are nested or how long their numbers are: if Python
-- cannot read them, the job fails and its error says so.
--
-- Returns the id of the job. If another job waits under the queueing lock, raises an error
-- (unique_violation), unless on_conflict is `skip` or `replace`: then the id is that of the other
-- job.
CREATE OR REPLACE FUNCTION defer(
    task          text,
    args          jsonb       DEFAULT '{}',
    lock          text        DEFAULT NULL,
    queue         text        DEFAULT 'default',
    priority      integer     DEFAULT 0,
    scheduled_at  timestamptz DEFAULT NULL,
    queueing_lock text        DEFAULT NULL,
    on_conflict   text        DEFAULT 'raise',
    on_retry      text        DEFAULT 'hold',
    on_failure    text        DEFAULT 'continue',
    timeout       interval    DEFAULT NULL,
    expires_at    timestamptz DEFAULT NULL,
    limit_key     text        DEFAULT NULL,
    after         bigint[]    DEFAULT NULL,
    on_parent     text        DEFAULT 'cancel',
    group_key     text        DEFAULT NULL,
    batch_id      bigint      DEFAULT NULL,
    locks         text[]      DEFAULT NULL,   -- several locks, instead of `lock`
    shared        text[]      DEFAULT NULL,   -- the locks that it shares
    headers       jsonb       DEFAULT NULL    -- travels with the arguments
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_locks   text[] := CASE WHEN locks IS NOT NULL OR shared <> '{}'
                             THEN lanes_of(lock, locks) END;
    v_problem text := CASE
        WHEN (octet_length(task) BETWEEN 1 AND 512) IS NOT TRUE
            THEN 'task: give its name, 1 to 512 bytes'
        WHEN (jsonb_typeof(args) = 'object') IS NOT TRUE
            THEN 'args: give a JSON object of arguments by name, like {"letter": "a"}'
        WHEN octet_length(lock) NOT BETWEEN 1 AND 1024
            THEN 'lock: give 1 to 1,024 bytes, or NULL for a job without a lane'
        WHEN lock IS NOT NULL AND locks IS NOT NULL
            THEN 'locks: give lock or locks'
        WHEN locks = '{}'
            THEN 'locks: give 1 to 8 locks, or NULL for a job without a lane'
        WHEN EXISTS (SELECT FROM unnest(shared) AS each
                     WHERE (each IN (SELECT unnest(v_locks))) IS NOT TRUE)
            THEN 'shared: give locks that are among the locks of the job'
        WHEN octet_length(queueing_lock) NOT BETWEEN 1 AND 1024
            THEN 'queueing_lock: give 1 to 1,024 bytes, or NULL'
        WHEN (queue ~ '^[A-Za-z0-9_.:-]{1,63}$') IS NOT TRUE
            THEN 'queue: give 1 to 63 letters, digits, and _ . : -'
        WHEN priority IS NULL
            THEN 'priority: give a whole number'
        WHEN scheduled_at < timestamptz '0002-01-01 00:00:00+00'
            OR scheduled_at >= timestamptz '9999-01-01 00:00:00+00'
            THEN 'scheduled_at: give a time between the years 2 and 9998, or NULL for at once'
        WHEN on_conflict IS NULL
            THEN 'on_conflict: give raise, skip, or replace'
        WHEN octet_length(limit_key) NOT BETWEEN 1 AND 1024 OR strpos(limit_key, '*') > 0
            THEN 'limit_key: give 1 to 1,024 bytes without *, or NULL for a job without a limit'
        WHEN octet_length(group_key) NOT BETWEEN 1 AND 1024 OR strpos(group_key, '*') > 0
            THEN 'group_key: give 1 to 1,024 bytes without *, or NULL for a job without a group'
        WHEN timeout < interval '1 ms' OR timeout > interval '365 days'
            THEN 'timeout: give how long a run may take, from a millisecond to 365 days, or NULL'
        WHEN expires_at < timestamptz '0002-01-01 00:00:00+00'
            OR expires_at >= timestamptz '9999-01-01 00:00:00+00'
            THEN 'expires_at: give a time between the years 2 and 9998, or NULL for never'
        WHEN expires_at <= scheduled_at
            THEN 'expires_at: give a time after scheduled_at, or the job could never start'
        WHEN jsonb_typeof(headers) <> 'object'
            THEN 'headers: give a JSON object, like {"tenant": "acme"}, or NULL'
        WHEN octet_length(headers::text) > 8192
            THEN 'headers: give at most 8,192 bytes of JSON'
        END;
    v_job record;
BEGIN
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION '%', v_problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(args::text) > 1048576 THEN
        PERFORM raise_args_too_large(octet_length(args::text), 1048576);
    END IF;
    SELECT * INTO v_job FROM defer_jobs(
        ARRAY[task], ARRAY[args], ARRAY[queue], ARRAY[lock], ARRAY[priority], ARRAY[scheduled_at],
        NULL,
        ARRAY[on_retry::retry_policy], ARRAY[on_failure::failure_policy],
        p_queueing_locks => CASE WHEN queueing_lock IS NOT NULL THEN ARRAY[queueing_lock] END,
        p_on_conflict => on_conflict::conflict_policy,
        p_timeouts => ARRAY[timeout], p_expires_at => ARRAY[expires_at],
        p_limit_keys => ARRAY[limit_key], p_group_keys => ARRAY[group_key],
        p_headers => ARRAY[headers],
        p_after => CASE WHEN after <> '{}' THEN after END,
        p_after_of => CASE WHEN after <> '{}' THEN array_fill(1, ARRAY[cardinality(after)]) END,
        p_on_parent => ARRAY[on_parent::parent_policy],
        p_batch_ids => CASE WHEN batch_id IS NOT NULL THEN ARRAY[batch_id] END,
        p_lanes => v_locks,
        p_lanes_of => array_fill(1, ARRAY[coalesce(cardinality(v_locks), 0)]),
        p_lanes_shared => ARRAY(
            SELECT coalesce(each.name = ANY (shared), false)
            FROM unnest(v_locks) WITH ORDINALITY AS each(name, place) ORDER BY each.place)
    );
    IF NOT v_job.is_new AND on_conflict = 'raise' THEN
        RAISE EXCEPTION 'job % already waits under queueing_lock %', v_job.id,
            quote_literal(queueing_lock)
            USING ERRCODE = 'unique_violation',
                HINT = 'Pass on_conflict => ''skip'' or ''replace''.';
    END IF;
    RETURN v_job.id;
END $$;
