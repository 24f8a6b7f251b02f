-- Makes a finished job live again under its old id, so it returns to its old place in its lane. It
-- is `todo` and its own token. If it has expired, it does not expire again. Returns the number of
-- restored jobs.
--
-- Its new end is always announced, because a child that this call cannot see may wait for it. The
-- edges stay as they are: only a session that has locked the child may change them (see
-- settle_ends). A batch that has not ended waits for the job again. Like join_batches, this keeps
-- the batch open until commit.
CREATE OR REPLACE FUNCTION restore_job(
    p_id    bigint,
    p_from  timestamptz DEFAULT '-infinity',   -- when it ended, so that other days are skipped
    p_until timestamptz DEFAULT 'infinity'
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_back record;
BEGIN
    WITH found AS (
        DELETE FROM finished_jobs AS job
        WHERE job.id = p_id AND job.finished_at BETWEEN p_from AND p_until
        RETURNING job.*, keep_uncounted(job, job.tableoid, job.xmin, job.ctid)
    ), back AS (
        INSERT INTO jobs (id, back_id, scheduled_at, created_at, was_attempted, status, on_retry,
            on_failure, timeout, expires_at, has_children, priority, attempts, queue, task, lock,
            queueing_lock, lost_queueing_lock, args, errors, limit_key, group_key, batch_id,
            locks, shared, headers)
        OVERRIDING SYSTEM VALUE
        SELECT id, nextval('jobs_id_seq'), clock(), created_at, attempts > 0, 'todo', on_retry,
            on_failure, timeout, CASE WHEN expires_at > clock() THEN expires_at END, true, priority,
            attempts, queue, task, lock, queueing_lock, queueing_lock IS NOT NULL, args, errors,
            limit_key, group_key, batch_id, locks, shared, headers
        FROM found
        RETURNING lost_queueing_lock, locks
    )
    SELECT count(*) AS count, bool_or(lost_queueing_lock) AS lost_queueing_lock,
        (SELECT max(batch_id) FROM found) AS batch_id, (SELECT max(status) FROM found) AS status,
        bool_or(locks IS NOT NULL) AS joins
    INTO v_back FROM back;

    IF v_back.lost_queueing_lock THEN
        PERFORM retake_queueing_locks(ARRAY[p_id]);
    END IF;
    IF v_back.joins THEN
        PERFORM join_lanes(ARRAY[p_id]);
    END IF;
    PERFORM FROM batch_gates WHERE batch_id = v_back.batch_id FOR KEY SHARE;
    IF FOUND THEN
        PERFORM note_batch_event(v_back.batch_id, v_back.status::text::batch_event, -1, p_id);
    END IF;
    RETURN v_back.count;
END $$;
