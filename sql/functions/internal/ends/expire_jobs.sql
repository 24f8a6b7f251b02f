-- expire_jobs: ends jobs that have not started by their `expires_at`. They are `cancelled`, and
-- their error says why. A job that comes back from an attempt does not expire.
--
-- Never waits. A job in a lane ends under the lock of the lane's row, like a cancelled one. If
-- another session has locked that row or the job, a later call ends it, and start_jobs refuses it
-- until then. Bounded: it looks past locked jobs among ten times p_limit jobs, and ends at most
-- p_limit in at most p_lanes lanes, since each lane can keep an advisory lock until commit, and the
-- server's lock table is finite. The lanes of the jobs that expired first come first, so a job with
-- several lanes gets all of them or none.
--
-- Lock order: the lanes, then the jobs. No call waits for another, so none deadlocks.
CREATE OR REPLACE FUNCTION expire_jobs(p_limit integer, p_lanes integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now  timestamptz := clock();
    v_seen record;
    v_held text[];
    v_gone record;
BEGIN
    WITH late AS MATERIALIZED (
        -- ROWS: before PostgreSQL 16, all jobs of one instant would be read otherwise.
        SELECT id, lanes_of(lock, locks) AS locks,
            row_number() OVER (ORDER BY expires_at ROWS UNBOUNDED PRECEDING) AS place
        FROM (
            SELECT * FROM (
                SELECT id, lock, locks, expires_at, is_touched(xmin, xmax) AS touched FROM jobs
                WHERE expires_at <= v_now AND expires_at IS NOT NULL AND status <> 'doing'
                    AND NOT was_attempted
                ORDER BY expires_at LIMIT 10 * p_limit
            ) AS seen
            WHERE NOT touched OR try_lock_job(id)
            ORDER BY expires_at LIMIT p_limit
        ) AS free
    )
    SELECT ARRAY(SELECT late.id FROM late) AS ids,
        ARRAY(SELECT lane FROM late CROSS JOIN LATERAL unnest(late.locks) AS lane
              GROUP BY lane ORDER BY min(place) LIMIT p_lanes) AS locks
    INTO v_seen;
    v_held := try_lock_lanes(v_seen.locks);

    -- A new statement: some of the jobs may have started, moved or ended before we had their lanes.
    SELECT array_agg(late.id) AS ids, array_agg(late.error) AS errors INTO v_gone
    FROM (
        SELECT id, jsonb_build_object('error', 'expired: it had not started by ' || to_char(
            expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') || ' UTC') AS error
        FROM jobs
        WHERE id = ANY (v_seen.ids) AND expires_at <= v_now AND status <> 'doing'
            AND NOT was_attempted
            AND (lock IS NULL OR CASE WHEN locks IS NULL THEN lock IN (SELECT unnest(v_held))
                                      ELSE NOT EXISTS (
                                          SELECT FROM unnest(locks) AS lane
                                          WHERE lane NOT IN (SELECT unnest(v_held))) END)
        FOR UPDATE SKIP LOCKED
    ) AS late;
    IF v_gone.ids IS NOT NULL THEN
        PERFORM archive_jobs(v_gone.ids, p_errors => v_gone.errors);
    END IF;
    PERFORM reopen_lane(lock) FROM unnest(v_held) AS lock;
END $$;
