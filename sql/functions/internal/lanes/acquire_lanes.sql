-- Takes lanes for a claim. A lane that no worker holds gets a new row. A lane that waits for the
-- retry of a job that we saw is taken over if that job is in one of our queues; for other workers
-- the lane stays reserved. The returned lanes are ours until we give them back. Other sessions are
-- working on the rest.
--
-- Never waits. Lanes that have a row are filtered out, and the advisory lock filters out those that
-- another claim is inserting right now. (ON CONFLICT alone would wait for an update of that row to
-- commit.) The lanes are tried until there are enough, those without a row first, each in the given
-- order. Most sessions compile only the first statement, since few lanes wait for a retry.
CREATE OR REPLACE FUNCTION acquire_lanes(p_worker uuid, p_queues text[], p_locks text[],
    p_seen bigint[], p_limit bigint)
RETURNS TABLE (lock text, job_id bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_count integer;
BEGIN
    RETURN QUERY
    INSERT INTO lanes (lock, worker_id, since)
    SELECT wanted.lock, p_worker, clock() FROM unnest(p_locks) AS wanted(lock)
    WHERE CASE WHEN (SELECT lanes.lock FROM lanes WHERE lanes.lock = wanted.lock) IS NULL
               THEN pg_try_advisory_xact_lock(lock_key('lane', wanted.lock)) END
    LIMIT p_limit
    ON CONFLICT DO NOTHING
    RETURNING lanes.lock, NULL::bigint;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count >= least(p_limit, cardinality(p_locks)) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH waiting AS MATERIALIZED (
        SELECT lanes.lock, lanes.job_id FROM lanes
        WHERE lanes.lock = ANY (p_locks) AND lanes.job_id = ANY (p_seen)
          AND lanes.stopped IS NULL
        FOR UPDATE OF lanes SKIP LOCKED
    ), reserved AS MATERIALIZED (
        -- Lock the job's row too, so that it is read again: since we saw it, the job may have run,
        -- failed, and moved.
        SELECT waiting.lock, waiting.job_id FROM waiting
        CROSS JOIN LATERAL (
            SELECT FROM jobs
            WHERE jobs.id = waiting.job_id AND jobs.status = 'todo'
              AND (p_queues IS NULL OR jobs.queue::text = ANY (p_queues))
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS job
        LIMIT p_limit - v_count
    ), taken AS (
        UPDATE lanes
        SET worker_id = p_worker, job_id = NULL, look_at = NULL, since = clock()
        WHERE lanes.lock = ANY (ARRAY(SELECT reserved.lock FROM reserved))
    )
    TABLE reserved;
END $$;
