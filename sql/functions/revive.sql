-- A finished job comes back to life under its old id, so it takes its old place in its lane: `todo`, its own token.
CREATE OR REPLACE FUNCTION revive(p_id bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_back record;
BEGIN
    WITH found AS (
        DELETE FROM finished_jobs WHERE id = p_id RETURNING *
    ), back AS (
        INSERT INTO jobs (id, scheduled_at, created_at, status, on_retry, on_failure, priority, attempts,
                          queue, task, lock, args, errors)
        OVERRIDING SYSTEM VALUE
        SELECT id, clock(), created_at, 'todo', on_retry, on_failure, priority, attempts, queue, task, lock, args, errors
        FROM found
    )
    SELECT count(*) AS count, max(queueing_lock) AS queueing_lock INTO v_back FROM found;

    IF v_back.queueing_lock IS NOT NULL THEN
        PERFORM retake_queueing_locks(ARRAY[p_id], ARRAY[v_back.queueing_lock]);
    END IF;
    RETURN v_back.count;
END $$;
