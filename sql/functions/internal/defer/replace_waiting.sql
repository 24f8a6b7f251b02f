-- Gives the job that waits under a queueing lock the work of a new one: its task, arguments,
-- headers, timeout and expiry. If the job is scheduled and no lane waits for it, it also takes over
-- time, queue, priority, group and policies. It keeps its id, lock, limit and place. Returns false
-- if it no longer waits.
--
-- The job stays locked until the caller commits, and cannot start before that.
CREATE OR REPLACE FUNCTION replace_waiting(
    p_id bigint, p_task text, p_args jsonb, p_options job_options
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_job record;
BEGIN
    SELECT status, lock, limit_key, locks, shared, keeps_lanes INTO v_job
    FROM jobs WHERE id = p_id
        AND queueing_lock = p_options.queueing_lock AND status <> 'doing' AND NOT lost_queueing_lock
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_job.limit_key IS DISTINCT FROM p_options.limit_key THEN
        RAISE EXCEPTION 'limit: job % waits with the limit %, which replace cannot change', p_id,
            coalesce(quote_literal(v_job.limit_key), 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_job.locks IS DISTINCT FROM p_options.locks
        OR v_job.shared IS DISTINCT FROM p_options.shared THEN
        RAISE EXCEPTION 'locks: job % waits with other locks, which replace cannot change', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE jobs   -- the new task may be unpaused
    SET status = CASE WHEN status = 'paused' THEN 'todo' ELSE status END,
        task = p_task, args = p_args, headers = p_options.headers, timeout = p_options.timeout,
        expires_at = p_options.expires_at
    WHERE id = p_id;
    -- A job between two attempts is also scheduled, but its lane waits for it.
    IF v_job.status = 'scheduled' AND v_job.keeps_lanes IS NULL
        AND NOT EXISTS (SELECT FROM lanes WHERE lock = v_job.lock AND job_id = p_id) THEN
        UPDATE jobs
        SET status = CASE WHEN p_options.scheduled_at > clock() THEN 'scheduled'::job_status
                          ELSE 'todo' END,
            scheduled_at = coalesce(p_options.scheduled_at, clock()),
            delayed_at = p_options.delayed_at,
            queue = p_options.queue, priority = p_options.priority,
            group_key = p_options.group_key,
            on_retry = p_options.on_retry, on_failure = p_options.on_failure
        WHERE id = p_id;
        PERFORM join_lanes(ARRAY[p_id]) WHERE v_job.locks IS NOT NULL;
    END IF;
    RETURN true;
END $$;
