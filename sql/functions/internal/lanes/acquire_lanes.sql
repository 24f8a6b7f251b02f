-- Takes lanes for a claim. A lane without a row gets a new one, and a free row is taken over. So is
-- one that waits for the retry of a job that we saw, if that job is in one of our queues; for other
-- workers the lane stays reserved. The returned lanes are ours until we give them back. Other
-- sessions are working on the rest.
--
-- Never waits. It only tries to lock the names of the lanes, in the given order until there are
-- enough, and then the rows. Names are locked in a statement of their own: the next one sees which
-- rows there are then. Most sessions compile only these two, since few lanes that have a row can be
-- taken.
CREATE OR REPLACE FUNCTION acquire_lanes(p_worker uuid, p_queues text[], p_locks text[],
    p_seen bigint[], p_limit bigint)
RETURNS TABLE (lock text, job_id bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_named text[];
    v_count integer;
    v_own   record;
BEGIN
    v_named := ARRAY(
        SELECT wanted.lock FROM unnest(p_locks) AS wanted(lock)
        WHERE pg_try_advisory_xact_lock(lock_key('lane', wanted.lock)) LIMIT p_limit);
    RETURN QUERY
    INSERT INTO lanes (lock, worker_id, since)
    SELECT named.lock, p_worker, clock() FROM unnest(v_named) AS named(lock)
    WHERE (SELECT lanes.lock FROM lanes WHERE lanes.lock = named.lock
           ORDER BY lanes.version DESC LIMIT 1) IS NULL
    ON CONFLICT DO NOTHING
    RETURNING lanes.lock, NULL::bigint;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count >= cardinality(v_named) THEN
        RETURN;
    END IF;
    WITH waiting AS MATERIALIZED (
        SELECT own.lock, own.job_id FROM unnest(v_named) AS named(lock)
        CROSS JOIN LATERAL (
            SELECT lanes.lock, lanes.job_id FROM lanes
            WHERE lanes.lock = named.lock AND lanes.stopped IS NULL
              AND (lanes.state IS NULL OR lanes.job_id = ANY (p_seen))
            ORDER BY lanes.version DESC LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS own
    ), reserved AS (
        -- Lock the job's row too, so that it is read again: since we saw it, the job may have run,
        -- failed, and moved.
        SELECT waiting.lock, waiting.job_id FROM waiting
        LEFT JOIN LATERAL (
            SELECT true AS is_ours FROM jobs
            WHERE jobs.id = waiting.job_id AND jobs.status = 'todo'
              AND (p_queues IS NULL OR jobs.queue::text = ANY (p_queues))
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS job ON true
        WHERE waiting.job_id IS NULL OR job.is_ours
    )
    SELECT array_agg(reserved.lock) AS locks, array_agg(reserved.job_id) AS jobs INTO v_own
    FROM reserved;
    -- A new statement, which sees these rows as we have locked them.
    UPDATE lanes
    SET worker_id = p_worker, job_id = NULL, look_at = NULL, since = clock(),
        version = next_version(lanes.version, NULL)
    FROM unnest(v_own.locks) AS own(lock)
    WHERE lanes.ctid = (
        SELECT newest.ctid FROM lanes AS newest WHERE newest.lock = own.lock
        ORDER BY newest.version DESC LIMIT 1);
    RETURN QUERY SELECT * FROM unnest(v_own.locks, v_own.jobs);
END $$;
