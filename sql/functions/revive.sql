-- A finished job comes back to life under its old id, so it takes its old place in its lane: `todo`, its own token.
CREATE OR REPLACE FUNCTION revive(p_id bigint) RETURNS bigint
LANGUAGE sql AS $$
    WITH found AS (
        DELETE FROM finished_jobs WHERE id = p_id RETURNING *
    ), back AS (
        INSERT INTO jobs (id, scheduled_at, created_at, status, on_retry, on_failure, timeout, priority, attempts,
                          queue, task, lock, args, errors)
        OVERRIDING SYSTEM VALUE
        SELECT id, clock(), created_at, 'todo', on_retry, on_failure, timeout, priority, attempts,
               queue, task, lock, args, errors
        FROM found
        RETURNING queue
    )
    SELECT count(*) FROM back
$$;
