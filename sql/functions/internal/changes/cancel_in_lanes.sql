-- Does the work of cancel_waiting for jobs that have `locks`. Never waits for their other lanes:
-- jobs with a lane locked by another session are left. Bounded: each locked lane keeps an advisory
-- lock, so one call locks at most 500 lanes, those of the first jobs. Call it again for the rest.
-- Returns how many jobs were cancelled and how many are left. The caller has locked p_lock.
CREATE OR REPLACE FUNCTION cancel_in_lanes(p_lock text, OUT cancelled bigint, OUT rest bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_ids  bigint[];
    v_held text[];
    v_job  record;
BEGIN
    cancelled := 0;
    rest := 0;
    v_ids := ARRAY(
        SELECT id FROM waits WHERE lock = p_lock
        UNION ALL
        SELECT id FROM jobs WHERE lock = p_lock
            AND status IN ('todo', 'blocked', 'limited', 'paused')
            AND lock IS NOT NULL AND keeps_lanes IS NULL AND locks IS NOT NULL
        UNION ALL
        SELECT awaited.id FROM lanes CROSS JOIN LATERAL (
            SELECT jobs.id FROM jobs WHERE jobs.id = lanes.job_id AND jobs.locks IS NOT NULL LIMIT 1
        ) AS awaited
        WHERE lanes.lock = p_lock
        UNION ALL
        SELECT id FROM jobs WHERE keeps_lanes AND p_lock = ANY (shared));
    IF v_ids = '{}' THEN
        RETURN;
    END IF;
    v_held := p_lock || try_lock_lanes(ARRAY(
        SELECT lane FROM jobs CROSS JOIN LATERAL unnest(locks) AS lane
        WHERE id = ANY (v_ids) AND lane <> p_lock GROUP BY lane ORDER BY min(id) LIMIT 500));
    FOR v_job IN
        SELECT ROW(id, locks, shared)::job_lanes AS lanes, keeps_lanes AS kept
        FROM jobs WHERE id = ANY (v_ids) ORDER BY id
    LOOP
        PERFORM archive_jobs(ARRAY[(v_job.lanes).id])
        WHERE NOT EXISTS (
            SELECT FROM unnest((v_job.lanes).locks) AS lane
            WHERE lane NOT IN (SELECT unnest(v_held)));
        IF FOUND THEN
            cancelled := cancelled + 1;
            PERFORM reopen_lanes(v_job.lanes, v_job.kept);
        ELSE
            rest := rest + 1;
        END IF;
    END LOOP;
    PERFORM reopen_lane(lane) FROM unnest(v_held) AS lane WHERE lane <> p_lock;
END $$;
