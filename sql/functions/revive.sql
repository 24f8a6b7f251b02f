-- A finished job comes back to life under its old id, so it takes its old place in its lane: `todo`, its own token.
CREATE OR REPLACE FUNCTION revive(p_id bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_back record;
BEGIN
    WITH found AS (
        DELETE FROM finished_jobs WHERE id = p_id RETURNING *
    ), back AS (
        INSERT INTO jobs (id, scheduled_at, created_at, begun, status, on_retry, on_failure, timeout, priority, attempts,
                          queue, task, lock, queueing_lock, yields, args, errors)
        OVERRIDING SYSTEM VALUE
        SELECT id, clock(), created_at, attempts > 0, 'todo', on_retry, on_failure, timeout, priority, attempts,
               queue, task, lock, queueing_lock, queueing_lock IS NOT NULL, args, errors
        FROM found
        RETURNING yields
    )
    SELECT count(*) AS count, bool_or(yields) AS yields INTO v_back FROM back;

    IF v_back.yields THEN
        PERFORM retake_queueing_locks(ARRAY[p_id]);
    END IF;
    RETURN v_back.count;
END $$;
