-- Does the same as retry_job, with changes: the job runs again under its id, not before p_at, and
-- with another priority, in another queue, or in another lane. NULL keeps a value. Returns false if
-- there is nothing to do: the job waits, runs, or does not exist. A job that has several lanes, or
-- shares one, cannot change them. With p_by, lane_audit records who did it, and what was changed.
CREATE OR REPLACE FUNCTION retry_job_changed(
    p_id       bigint,
    p_at       timestamptz DEFAULT NULL,
    p_priority integer DEFAULT NULL,
    p_queue    text DEFAULT NULL,
    p_lock     text DEFAULT NULL,
    p_by       text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_halted  text;
    v_locks   text[];
    v_changes text;
    v_expires timestamptz;
BEGIN
    IF has_invalid_queue(ARRAY[p_queue]) THEN
        PERFORM raise_invalid_queue(ARRAY[p_queue]);
    END IF;
    v_locks := coalesce(
        (SELECT locks FROM jobs WHERE id = p_id),
        (SELECT locks FROM finished_jobs WHERE id = p_id ORDER BY finished_at DESC LIMIT 1));
    IF p_lock IS NOT NULL AND v_locks IS NOT NULL THEN
        RAISE EXCEPTION 'lock: job % has several lanes or shares one; defer a new job instead', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_halted := (
        SELECT lock FROM lanes
        WHERE stopped = 'halted' AND failed_job_id = p_id AND lock <> p_lock);
    -- A job changes lanes by way of the history. It leaves the old lane as if it had been cancelled
    -- or skipped.
    IF v_halted IS NOT NULL THEN
        IF (lock_lane(v_halted)).failed_job_id = p_id THEN
            PERFORM clear_stop(v_halted);
            PERFORM audit('retry-head', v_halted, 1, p_by, 'it moves to another lane', p_id);
        ELSE
            PERFORM reopen_lane(v_halted);
        END IF;
    END IF;
    IF p_lock IS NOT NULL THEN
        -- A job that comes after others is in no lane yet, and must not lose its parents.
        UPDATE jobs SET lock = p_lock
        WHERE id = p_id AND coalesce(status IN ('scheduled', 'pending'), false) AND has_parents;
        PERFORM cancel_job(id) FROM jobs WHERE id = p_id
            AND coalesce(status = 'scheduled', false) AND lock IS DISTINCT FROM p_lock;
        -- The row as it was, before its transaction changes (see roll_up). Of two callers, only the
        -- one that has locked the row keeps it.
        WITH old AS MATERIALIZED (
            SELECT job, job.ctid, job.tableoid, job.xmin FROM finished_jobs AS job
            WHERE job.id = p_id FOR UPDATE
        )
        UPDATE finished_jobs SET lock = p_lock FROM old
        WHERE finished_jobs.ctid = old.ctid AND finished_jobs.tableoid = old.tableoid
            AND finished_jobs.id = p_id
            AND keep_uncounted(old.job, old.tableoid, old.xmin, old.ctid);
    END IF;

    IF NOT retry_job(p_id, p_by) THEN
        RETURN false;
    END IF;
    v_expires := (SELECT expires_at FROM jobs WHERE id = p_id AND NOT was_attempted);
    IF p_at >= v_expires THEN
        RAISE EXCEPTION 'retry_at: job % expires at %, before it could start', p_id, v_expires
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- No other session sees the job before this transaction commits.
    PERFORM leave_line(id, priority, locks) FROM jobs WHERE id = p_id AND v_locks IS NOT NULL;
    UPDATE jobs
    SET status = CASE WHEN p_at > clock() THEN 'scheduled'::job_status ELSE status END,
        scheduled_at = coalesce(p_at, scheduled_at),
        delayed_at = CASE WHEN p_at IS NULL THEN delayed_at END,
        back_id = NULL,   -- it may have another place now (see line_from)
        priority = coalesce(p_priority, priority),
        queue = coalesce(p_queue, queue)
    WHERE id = p_id;
    PERFORM join_lanes(ARRAY[p_id]) WHERE v_locks IS NOT NULL;
    v_changes := concat_ws(', ', 'not before ' || p_at, 'priority ' || p_priority,
        'queue ' || p_queue, 'lock ' || p_lock);
    IF p_by IS NOT NULL AND v_changes <> '' THEN
        PERFORM audit('change-job', (SELECT lock FROM jobs WHERE id = p_id), 1, p_by, v_changes,
            p_id);
    END IF;
    RETURN true;
END $$;
