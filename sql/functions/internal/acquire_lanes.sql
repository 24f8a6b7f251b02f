-- Makes lanes ours. A lane that nobody holds gets a new row. A lane that waits for the retry of a
-- job that we saw is taken over, if that job is in one of our queues; for other workers the lane
-- stays reserved. The returned lanes are ours until we give them back. Somebody else is working
-- on the others.
--
-- It never waits. The advisory lock filters out lanes that another claim is just inserting, and
-- NOT EXISTS filters out those that have a row. (ON CONFLICT alone would wait until an update of
-- that row commits.) The lanes are tried in the given order until there are enough.
CREATE OR REPLACE FUNCTION acquire_lanes(p_worker uuid, p_queues text[], p_locks text[],
    p_seen bigint[], p_limit bigint)
RETURNS TABLE (lock text, job_id bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT w.lock FROM unnest(p_locks) AS w(lock)
    ), reserved AS MATERIALIZED (
        -- Lock the job's row too, so that it is read again. Since we saw it, the job may have run,
        -- failed, and moved.
        SELECT lanes.lock, lanes.job_id FROM lanes JOIN jobs ON jobs.id = lanes.job_id
        WHERE lanes.lock = ANY (p_locks) AND lanes.job_id = ANY (p_seen)
          AND lanes.stopped IS NULL AND jobs.status = 'todo'
          AND (p_queues IS NULL OR jobs.queue = ANY (p_queues))
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE lanes
        SET worker_id = p_worker, job_id = NULL, look_at = NULL, since = clock()
        FROM reserved WHERE lanes.lock = reserved.lock
        RETURNING lanes.lock, reserved.job_id
    ), created AS (
        INSERT INTO lanes (lock, worker_id, since)
        SELECT wanted.lock, p_worker, clock() FROM wanted
        WHERE NOT EXISTS (SELECT FROM lanes WHERE lanes.lock = wanted.lock)
          AND pg_try_advisory_xact_lock(lane_key(wanted.lock))
        LIMIT p_limit - (SELECT count(*) FROM reserved)
        ON CONFLICT DO NOTHING
        RETURNING lanes.lock
    )
    SELECT * FROM taken UNION ALL SELECT created.lock, NULL FROM created;
END $$;
