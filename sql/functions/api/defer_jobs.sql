-- defer_jobs: creates jobs, in the order of the arrays, by a plain INSERT in the caller's
-- transaction. It takes no lane row and no advisory lock. Only queueing locks can make it wait (see
-- defer_unless_waiting). For jobs that come after others, or that have several or shared locks, see
-- defer_after. For batches, see join_batches.
--
-- A job starts as `scheduled` if its time is in the future, else as `todo`. Among the due jobs of
-- one lane in *one* call, only the best is `todo`, and its siblings are `blocked`: they commit
-- together with the sibling that is their wake-up token. A job with a limit is always `todo`.
CREATE OR REPLACE FUNCTION defer_jobs(
    p_tasks      text[],
    p_args       jsonb[],
    p_queues     text[],          -- NULL, here and below: the default for each job
    p_locks      text[],
    p_priorities integer[],
    p_at         timestamptz[],   -- not before this time
    p_in         interval[],      -- or not before this delay, by the server's clock
    p_on_retry   retry_policy[] DEFAULT NULL,     -- hold or release the lane
    p_on_failure failure_policy[] DEFAULT NULL,   -- continue or halt the lane
    p_queueing_locks text[] DEFAULT NULL,         -- at most one job waits under each
    p_on_conflict    conflict_policy DEFAULT 'raise',  -- what to do if one already waits
    p_timeouts   interval[] DEFAULT NULL,         -- how long a run may take
    p_limit_keys text[] DEFAULT NULL,             -- see set_limit
    p_group_keys text[] DEFAULT NULL,             -- groups take turns
    p_expires_at timestamptz[] DEFAULT NULL,      -- a job that has not started by then is cancelled
    p_expires_in interval[] DEFAULT NULL,         -- or after this time, by the server's clock
    p_headers    jsonb[] DEFAULT NULL,            -- travel with the arguments
    p_after      bigint[] DEFAULT NULL,           -- jobs that must end first
    p_after_of   integer[] DEFAULT NULL,          -- the job that each is for: its index, from 1
    p_on_parent  parent_policy[] DEFAULT NULL,    -- what to do if one did not succeed
    p_batch_ids  bigint[] DEFAULT NULL,           -- see open_batch
    p_lanes      text[] DEFAULT NULL,             -- all locks of jobs with several or shared ones
    p_lanes_of   integer[] DEFAULT NULL,          -- the job that each is for: its index, from 1
    p_lanes_shared boolean[] DEFAULT NULL         -- whether that job shares the lane
) RETURNS TABLE (id bigint, is_new boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock();
    v_own xid8 := pg_current_xact_id();   -- before it draws an id (see final_ids)
    -- The limit is above Python's mebibyte, because PostgreSQL writes a space after each comma and
    -- colon. Very small arguments are not written out to be measured. They must be very small,
    -- because 16 bytes may be a number of 131,072 digits.
    v_most    constant integer := 2097152;
    v_options job_options[];
    v_largest integer := (SELECT max(octet_length(args::text)) FROM unnest(p_args) AS args
        WHERE pg_column_size(args) > 192);
BEGIN
    IF current_setting('array_nulls') <> 'on' THEN
        PERFORM raise_no_array_nulls();
    END IF;
    IF has_invalid_queue(p_queues) THEN
        PERFORM raise_invalid_queue(p_queues);
    END IF;
    IF array_to_string(p_tasks, ',') LIKE '%builtin:%' THEN
        PERFORM check_builtin(p_tasks);
    END IF;
    IF v_largest > v_most THEN
        PERFORM raise_args_too_large(v_largest, v_most);
    END IF;
    IF p_batch_ids IS NOT NULL THEN
        IF p_queueing_locks IS NOT NULL THEN
            RAISE EXCEPTION 'batch: a job with a queueing_lock cannot be in a batch'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        PERFORM join_batches(p_batch_ids);
    END IF;
    IF p_lanes IS NOT NULL THEN
        PERFORM check_lanes(p_lanes, p_lanes_of, p_lanes_shared, cardinality(p_tasks));
    END IF;
    IF p_queueing_locks IS NOT NULL OR p_after IS NOT NULL OR p_lanes IS NOT NULL THEN
        v_options := ARRAY(
            SELECT ROW(coalesce(g.queue, 'default'), coalesce(lanes.locks[1], g.lock),
                coalesce(g.priority, 0),
                coalesce(g.at, v_now + g.delay),
                CASE WHEN g.at IS NULL AND g.delay > interval '0' THEN v_now END,
                coalesce(g.on_retry, 'hold'), coalesce(g.on_failure, 'continue'),
                g.queueing_lock, g.timeout,
                coalesce(g.expires_at, v_now + g.expires_in), g.limit_key, g.group_key, g.batch_id,
                CASE WHEN lanes.locks[2] IS NOT NULL OR lanes.shared IS NOT NULL
                     THEN lanes.locks END,
                lanes.shared, g.headers)::job_options
            FROM unnest(p_tasks, p_queues, p_locks, p_priorities, p_at, p_in, p_on_retry,
                        p_on_failure, p_queueing_locks, p_timeouts, p_expires_at, p_expires_in,
                        p_limit_keys, p_group_keys, p_batch_ids, p_headers)
                WITH ORDINALITY AS g(task, queue, lock, priority, at, delay, on_retry, on_failure,
                    queueing_lock, timeout, expires_at, expires_in, limit_key, group_key, batch_id,
                    headers, position)
            LEFT JOIN (
                SELECT place, array_agg(lane ORDER BY lane COLLATE "C") AS locks,
                    array_agg(lane ORDER BY lane COLLATE "C") FILTER (WHERE is_shared) AS shared
                FROM unnest(p_lanes, p_lanes_of, p_lanes_shared) AS given(lane, place, is_shared)
                GROUP BY place
            ) AS lanes ON lanes.place = g.position
            ORDER BY g.position
        );
    END IF;
    IF p_after IS NOT NULL OR p_lanes IS NOT NULL AND p_queueing_locks IS NULL THEN
        RETURN QUERY SELECT * FROM defer_after(p_tasks, p_args, v_options,
            coalesce(p_after, '{}'), coalesce(p_after_of, '{}'), p_on_parent);
        RETURN;
    ELSIF p_queueing_locks IS NOT NULL THEN
        RETURN QUERY SELECT * FROM defer_unless_waiting(p_tasks, p_args, v_options, p_on_conflict);
        RETURN;
    END IF;

    RETURN QUERY
    WITH given AS (
        SELECT g.*, coalesce(g.at, v_now + g.delay) AS due_at
        FROM unnest(p_tasks, p_args, p_queues, p_locks, p_priorities, p_at, p_in, p_on_retry,
                    p_on_failure, p_timeouts, p_expires_at, p_expires_in, p_limit_keys,
                    p_group_keys, p_batch_ids, p_headers)
            WITH ORDINALITY AS g(task, args, queue, lock, priority, at, delay, on_retry, on_failure,
                timeout, expires_at, expires_in, limit_key, group_key, batch_id, headers, position)
    ), ranked AS (
        SELECT g.*, coalesce(g.due_at > v_now, false) AS later,
            row_number() OVER (
                PARTITION BY g.lock, coalesce(g.due_at > v_now, false)
                    ORDER BY coalesce(g.priority, 0) DESC, g.position
            ) AS place
        FROM given AS g
    )
    INSERT INTO jobs (task, args, queue, lock, priority, scheduled_at, delayed_at, created_at,
        on_retry, on_failure, timeout, expires_at, limit_key, group_key, batch_id, headers,
        status)
    SELECT r.task, r.args, coalesce(r.queue, 'default'), r.lock, coalesce(r.priority, 0), r.due_at,
        CASE WHEN r.later AND r.at IS NULL THEN v_now END, v_now,
        coalesce(r.on_retry, 'hold'), coalesce(r.on_failure, 'continue'), r.timeout,
        coalesce(r.expires_at, v_now + r.expires_in), r.limit_key, r.group_key, r.batch_id,
        r.headers,
        CASE WHEN r.later THEN 'scheduled'::job_status
             WHEN r.lock IS NULL OR r.limit_key IS NOT NULL OR r.place = 1 THEN 'todo'
             ELSE 'blocked' END
    FROM ranked AS r
    ORDER BY r.position
    RETURNING jobs.id, true;

    PERFORM notify_workers(coalesce(p_queues, '{default}'));
END $$;
