-- defer_job: creates a single job without a queueing lock or an expiry. It does the same as
-- defer_jobs with arrays of one, in half the time. There are no siblings, so the job is `scheduled`
-- if its time is in the future, else `todo`.
CREATE OR REPLACE FUNCTION defer_job(
    p_task       text,
    p_args       jsonb,
    p_queue      text,
    p_lock       text,
    p_priority   integer,
    p_at         timestamptz,
    p_in         interval,
    p_on_retry   retry_policy,
    p_on_failure failure_policy,
    p_timeout    interval,
    p_headers    jsonb DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock();
    v_due timestamptz := coalesce(p_at, v_now + p_in);
    v_own xid8 := pg_current_xact_id();   -- before it draws an id (see final_ids)
    v_id  bigint;
BEGIN
    IF has_invalid_queue(ARRAY[p_queue]) THEN
        PERFORM raise_invalid_queue(ARRAY[p_queue]);
    END IF;
    IF p_task ^@ 'builtin:' THEN
        PERFORM check_builtin(ARRAY[p_task]);
    END IF;
    IF pg_column_size(p_args) > 192 AND octet_length(p_args::text) > 2097152 THEN  -- see defer_jobs
        PERFORM raise_args_too_large(octet_length(p_args::text), 2097152);
    END IF;
    INSERT INTO jobs (task, args, queue, lock, priority, scheduled_at, delayed_at, created_at,
                      on_retry, on_failure, timeout, headers, status)
    VALUES (p_task, p_args, p_queue, p_lock, p_priority, v_due,
            CASE WHEN p_at IS NULL AND v_due > v_now THEN v_now END, v_now,
            p_on_retry, p_on_failure, p_timeout, p_headers,
            CASE WHEN v_due > v_now THEN 'scheduled'::job_status ELSE 'todo' END)
    RETURNING id INTO v_id;
    PERFORM notify_workers(ARRAY[p_queue]);
    RETURN v_id;
END $$;
