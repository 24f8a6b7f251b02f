-- Defers the job of one instant of a schedule, for the first caller. The schedule's row decides who
-- is first. A second scheduler waits a moment for the first one, and is refused unless the first
-- one rolled back. NULL means refused.
--
-- The instant must have passed by the server's clock and be later than the last one, so nothing
-- fires twice when that clock is set back. A last instant more than a day ahead was written by a
-- wrong clock and is ignored.
CREATE OR REPLACE FUNCTION defer_periodic(
    p_periodic_id text, p_instant timestamptz,
    -- One element each: what defer_jobs takes.
    p_tasks text[], p_args jsonb[], p_queues text[], p_locks text[], p_priorities integer[],
    p_at timestamptz[], p_in interval[], p_on_retry retry_policy[] DEFAULT NULL,
    p_on_failure failure_policy[] DEFAULT NULL, p_queueing_locks text[] DEFAULT NULL,
    p_on_conflict conflict_policy DEFAULT 'raise',  -- then no job is deferred
    p_timeouts interval[] DEFAULT NULL, p_limit_keys text[] DEFAULT NULL,
    p_group_keys text[] DEFAULT NULL, p_expires_at timestamptz[] DEFAULT NULL,
    p_expires_in interval[] DEFAULT NULL, p_headers jsonb[] DEFAULT NULL,
    p_lanes text[] DEFAULT NULL, p_lanes_of integer[] DEFAULT NULL,
    p_lanes_shared boolean[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SET lock_timeout = '100ms'   -- the holder may hang, and other schedules are due
AS $$
DECLARE
    v_job_id bigint;
BEGIN
    PERFORM FROM schedules
    WHERE task = p_tasks[1] AND periodic_id = p_periodic_id AND p_instant <= clock()
      AND (last_instant IS NULL OR last_instant < p_instant
           OR last_instant > clock() + interval '1 day')
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    SELECT id INTO v_job_id
    FROM defer_jobs(p_tasks, p_args, p_queues, p_locks, p_priorities, p_at, p_in, p_on_retry,
        p_on_failure, p_queueing_locks, p_on_conflict, p_timeouts, p_limit_keys, p_group_keys,
        p_expires_at, p_expires_in, p_headers, p_lanes => p_lanes, p_lanes_of => p_lanes_of,
        p_lanes_shared => p_lanes_shared);
    UPDATE schedules SET last_instant = p_instant, last_job_id = v_job_id
    WHERE task = p_tasks[1] AND periodic_id = p_periodic_id;
    RETURN v_job_id;
END $$;
