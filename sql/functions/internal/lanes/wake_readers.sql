-- Makes the next job of each shared lane a token if it can share the lane too; otherwise readers
-- would run one after another. Returns the queues of the tokens, whose workers must be woken. The
-- caller holds the rows. Leaves p_spared alone, which the caller has blocked for good reason.
--
-- If an open transaction has the job locked, claims look again, as in release_lanes. A job that
-- keeps its share sleeps only while the lane is stopped, so only reopen_lane wakes these jobs
-- (p_kept). There may be many of them, in any lanes.
CREATE OR REPLACE FUNCTION wake_readers(
    p_locks text[], p_spared bigint DEFAULT NULL, p_kept boolean DEFAULT false
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_lanes  text[];
    v_ids    bigint[];
    v_busy   text[];
    v_result text[];
BEGIN
    v_lanes := ARRAY(
        SELECT lanes.lock FROM lanes
        WHERE lanes.lock = ANY (p_locks) AND readers IS NOT NULL AND stopped IS NULL);
    SELECT array_agg(next.id) FILTER (WHERE NOT next.busy),
        array_agg(next.lock) FILTER (WHERE next.busy)
    INTO v_ids, v_busy
    FROM (
        SELECT able.lock, able.id, NOT try_lock_job(able.id) AS busy
        FROM (
            SELECT head.lock, head.id
            FROM lane_heads(v_lanes) AS head
            CROSS JOIN LATERAL (
                SELECT jobs.shared FROM jobs WHERE jobs.id = head.id LIMIT 1
            ) AS job
            WHERE head.asleep AND head.lock = ANY (job.shared)
            UNION ALL
            SELECT lane, jobs.id FROM jobs CROSS JOIN LATERAL unnest(jobs.shared) AS lane
            WHERE p_kept AND jobs.keeps_lanes AND jobs.status = 'blocked'
                AND lane IN (SELECT unnest(v_lanes))
        ) AS able
        WHERE able.id IS DISTINCT FROM p_spared
    ) AS next;
    UPDATE lanes SET look_at = next_look_at(since) WHERE lanes.lock = ANY (v_busy);
    WITH token AS (
        UPDATE jobs SET status = 'todo' WHERE jobs.id = ANY (v_ids) AND jobs.status = 'blocked'
        RETURNING jobs.queue::text
    )
    SELECT coalesce(array_agg(DISTINCT queue), '{}') INTO v_result FROM token;
    RETURN v_result;
END $$;
