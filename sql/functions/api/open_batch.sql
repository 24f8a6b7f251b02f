-- open_batch: opens a batch and returns its id. Jobs join it by this id (see defer and defer_jobs).
-- When it is closed and all jobs that joined it have ended, its callback job runs. That job exists
-- from now on, and is `pending` until then. Without a callback, the batch only counts.
CREATE OR REPLACE FUNCTION open_batch(
    name       text,
    callback   text     DEFAULT NULL,        -- a task
    args       jsonb    DEFAULT '{}',        -- from here on as in defer, for the callback
    lock       text     DEFAULT NULL,
    queue      text     DEFAULT 'default',
    priority   integer  DEFAULT 0,
    on_retry   text     DEFAULT 'hold',
    on_failure text     DEFAULT 'continue',
    timeout    interval DEFAULT NULL,
    limit_key  text     DEFAULT NULL,
    locks      text[]   DEFAULT NULL,
    shared     text[]   DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_job   bigint;
    v_batch bigint;
BEGIN
    IF (octet_length(name) BETWEEN 1 AND 1024) IS NOT TRUE THEN
        RAISE EXCEPTION 'name: give 1 to 1,024 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF callback IS NOT NULL THEN
        v_job := defer(callback, args, lock => lock, queue => queue, priority => priority,
            on_retry => on_retry, on_failure => on_failure, timeout => timeout,
            limit_key => limit_key, locks => locks, shared => shared);
    END IF;
    INSERT INTO batches (name, callback_id, opened_at) VALUES (name, v_job, clock())
    RETURNING id INTO v_batch;
    INSERT INTO batch_gates (batch_id) VALUES (v_batch);
    -- No other session sees the job before this transaction commits.
    UPDATE jobs SET status = 'pending', has_parents = true, batch_id = v_batch WHERE id = v_job;
    PERFORM leave_line(job.id, job.priority, job.locks) FROM jobs AS job
    WHERE job.id = v_job AND job.locks IS NOT NULL;
    RETURN v_batch;
END $$;
