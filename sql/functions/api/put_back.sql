-- put_back: sets jobs that a worker has claimed but not begun `todo` again, as if they had never
-- been claimed. No attempt is charged, and their lanes are open to all workers. A lane that had
-- waited for a retry waits for it again. In a shared lane, the job is due only now: others have
-- rightly started before it.
--
-- It locks lanes first, then gates of limits, then jobs. Returns the jobs that are locked by an
-- open transaction, or whose lane or gate is: they are still ours, and must be put back again.
CREATE OR REPLACE FUNCTION put_back(p_ids bigint[], p_claims uuid[]) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_held record;
    v_back record;
BEGIN
    PERFORM require_settings();
    SELECT * INTO v_held FROM lock_lanes(p_ids, p_claims);
    IF v_held.busy <> '{}' THEN
        p_ids := mask_ids(p_ids, v_held.busy);
        RETURN QUERY SELECT unnest(v_held.busy);
    END IF;

    WITH back AS (
        UPDATE jobs SET status = 'todo', claim_id = NULL, worker_id = NULL, attempts = attempts - 1,
            -- until we know, below, that no other job waits under it
            lost_queueing_lock = jobs.queueing_lock IS NOT NULL,
            -- others may have started beside it
            scheduled_at = CASE WHEN jobs.shared IS NULL THEN jobs.scheduled_at ELSE clock() END,
            keeps_lanes = CASE WHEN jobs.locks IS NOT NULL AND jobs.was_attempted
                                   AND jobs.on_retry = 'hold' THEN true END
        FROM (SELECT * FROM unnest(p_ids, p_claims) AS o(id, claim_id) ORDER BY o.id) AS ours
        WHERE jobs.id = ANY (ARRAY[ours.id]) AND jobs.claim_id = ours.claim_id
        RETURNING jobs.id, CASE WHEN jobs.locks IS NULL THEN jobs.lock::text END AS lock,
            jobs.queue::text, jobs.lost_queueing_lock, jobs.limit_key::text,
            CASE WHEN jobs.locks IS NOT NULL
                 THEN ROW(jobs.id, jobs.locks, jobs.shared)::job_lanes END AS lanes,
            jobs.keeps_lanes,
            jobs.was_attempted AND jobs.on_retry = 'hold' AS was_attempted
    ), let_go AS (
        UPDATE lanes
        SET worker_id = NULL, since = clock(), version = next_version(lanes.version, NULL),
            job_id = CASE WHEN back.was_attempted THEN back.id END
        FROM back WHERE lanes.ctid = (
            SELECT newest.ctid FROM lanes AS newest WHERE newest.lock = back.lock
            ORDER BY newest.version DESC LIMIT 1)
    )
    SELECT array_agg(queue) AS queues,
           array_agg(lock)
               FILTER (
                   WHERE lock IS NOT NULL AND NOT was_attempted
                       AND lock NOT IN (SELECT unnest(v_held.stopped))
               ) AS lanes,
           array_agg(back.lanes) FILTER (WHERE keeps_lanes) AS keeping,
           array_agg(back.lanes)
               FILTER (WHERE back.lanes IS DISTINCT FROM NULL AND keeps_lanes IS NULL) AS leaving,
           array_agg(id) FILTER (WHERE lost_queueing_lock) AS yielding,
           array_agg(limit_gate(limit_key)) FILTER (WHERE limit_key IS NOT NULL) AS gates
    INTO v_back FROM back;

    IF v_back.yielding IS NOT NULL THEN
        PERFORM retake_queueing_locks(v_back.yielding);
    END IF;
    IF v_back.gates IS NOT NULL THEN
        PERFORM notify_workers(open_gates(v_back.gates, true));
    END IF;
    IF v_back.keeping IS NOT NULL OR v_back.leaving IS NOT NULL THEN
        PERFORM notify_workers(keep_or_leave(v_back.keeping, v_back.leaving));
    END IF;
    IF v_back.queues IS NOT NULL THEN
        PERFORM notify_workers(v_back.queues || release_lanes(v_back.lanes));
    END IF;
END $$;
