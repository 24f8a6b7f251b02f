-- retry: sends running jobs back to wait for their next attempt, before everything else in their
-- lane. The lane row stays reserved for the job (state `retrying`) until a claim takes it again.
-- The jobs behind it wait, even those of higher priority. With the policy `release`, the job leaves
-- its lane until it is due, and the lane continues. The lane also continues if the job moves to
-- another lane, which it joins as if it were deferred now, whoever holds that lane, with its old id
-- and its own wake-up token. A job that has several lanes, or shares one, does the same in all of
-- them, and keeps its shares. It cannot move to another lane.
--
-- It locks lanes first, then gates of limits, then jobs. Returns the ids that were still ours; the
-- others were not touched. A job is `busy` if an open transaction has it, its lane or its gate
-- locked: it is still ours, and must be reported again.
CREATE OR REPLACE FUNCTION retry(
    p_ids    bigint[],
    p_claims uuid[],
    p_delays interval[],   -- zero: immediately
    p_errors jsonb[],      -- NULL: nothing went wrong
    p_at         timestamptz[] DEFAULT NULL,   -- instead of the delay
    p_priorities integer[]     DEFAULT NULL,   -- NULL in these three: unchanged
    p_queues     text[]        DEFAULT NULL,
    p_locks      text[]        DEFAULT NULL,
    p_uncharged  boolean[]     DEFAULT NULL    -- true: the attempt does not count
) RETURNS TABLE (id bigint, busy boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_own     xid8 := pg_current_xact_id();   -- before it draws numbers (see final_ids)
    v_held    record;
    v_left    text[];   -- the lanes that the jobs are in now, if jobs change lanes
    v_again   record;
BEGIN
    PERFORM require_settings();
    IF has_invalid_queue(p_queues) THEN
        PERFORM raise_invalid_queue(p_queues);
    END IF;
    SELECT * INTO v_held FROM lock_lanes(p_ids, p_claims);
    IF v_held.busy <> '{}' THEN
        p_ids := mask_ids(p_ids, v_held.busy);
        RETURN QUERY SELECT unnest(v_held.busy), true;
    END IF;
    IF p_locks IS NOT NULL THEN
        v_left := ARRAY(
            SELECT (SELECT jobs.lock::text FROM jobs WHERE jobs.id = o.id)
            FROM unnest(p_ids) WITH ORDINALITY AS o(id, position) ORDER BY o.position
        );
    END IF;

    WITH again AS (
        UPDATE jobs
        SET status = CASE WHEN ended.due_at > clock() THEN 'scheduled'::job_status ELSE 'todo' END,
            scheduled_at = ended.due_at,
            delayed_at = CASE WHEN ended.at IS NULL AND ended.due_at > clock() THEN clock() END,
            back_id = CASE WHEN ended.due_at > clock() THEN NULL ELSE nextval('jobs_id_seq') END,
            claim_id = NULL,
            worker_id = NULL,
            priority = coalesce(ended.priority, jobs.priority),
            queue = coalesce(ended.queue, jobs.queue),
            lock = CASE WHEN jobs.locks IS NULL THEN coalesce(ended.lock, jobs.lock)
                        ELSE jobs.lock END,
            keeps_lanes = CASE WHEN jobs.locks IS NOT NULL AND jobs.on_retry = 'hold'
                               THEN true END,
            -- until we know, below, that no other job waits under it
            lost_queueing_lock = jobs.queueing_lock IS NOT NULL,
            was_attempted = true,
            attempts = jobs.attempts - coalesce(ended.uncharged, false)::integer,
            errors = add_error(
                jobs.errors, ended.error, jobs.attempts, jobs.started_at, jobs.worker_id)
        FROM (
            SELECT e.*, coalesce(e.at, clock() + e.delay) AS due_at
            FROM unnest(p_ids, p_claims, p_delays, p_errors, p_at, p_priorities, p_queues, p_locks,
                v_left, p_uncharged)
                AS e(id, claim_id, delay, error, at, priority, queue, lock, left_lock, uncharged)
            ORDER BY e.id
        ) AS ended
        WHERE jobs.id = ANY (ARRAY[ended.id]) AND jobs.claim_id = ended.claim_id
        RETURNING jobs.id, jobs.queue::text, jobs.lost_queueing_lock, jobs.limit_key::text,
                  CASE WHEN jobs.locks IS NOT NULL THEN NULL
                       WHEN ended.lock IS NULL THEN jobs.lock ELSE ended.left_lock END AS lock,
                  CASE WHEN jobs.locks IS NOT NULL
                       THEN ROW(jobs.id, jobs.locks, jobs.shared)::job_lanes END AS lanes,
                  jobs.keeps_lanes,
                  CASE WHEN ended.lock <> ended.left_lock THEN 'release'
                       ELSE jobs.on_retry END AS on_retry
    ), let_go AS (
        UPDATE lanes
        SET job_id = CASE WHEN again.on_retry = 'hold' THEN again.id END,
            worker_id = NULL, since = clock(), version = next_version(lanes.version, NULL)
        FROM again WHERE lanes.ctid = (
            SELECT newest.ctid FROM lanes AS newest WHERE newest.lock = again.lock
            ORDER BY newest.version DESC LIMIT 1)
    )
    SELECT array_agg(again.id) AS ids, array_agg(again.queue) AS queues,
           array_agg(again.lock) FILTER (
               WHERE again.lock IS NOT NULL AND again.on_retry = 'release'
                 AND again.lock NOT IN (SELECT unnest(v_held.stopped))
           ) AS released,
           array_agg(again.lanes) FILTER (WHERE again.keeps_lanes) AS keeping,
           array_agg(again.lanes)
               FILTER (WHERE again.lanes IS DISTINCT FROM NULL
                   AND again.keeps_lanes IS NULL) AS leaving,
           array_agg(again.id) FILTER (WHERE again.lost_queueing_lock) AS yielding,
           array_agg(limit_gate(again.limit_key)) FILTER (WHERE again.limit_key IS NOT NULL)
               AS gates
    INTO v_again FROM again;

    IF v_again.yielding IS NOT NULL THEN
        PERFORM retake_queueing_locks(v_again.yielding);
    END IF;
    IF v_again.gates IS NOT NULL THEN
        PERFORM notify_workers(open_gates(v_again.gates, true));
    END IF;
    IF v_again.keeping IS NOT NULL OR v_again.leaving IS NOT NULL THEN
        PERFORM notify_workers(keep_or_leave(v_again.keeping, v_again.leaving));
    END IF;
    IF v_again.ids IS NOT NULL THEN
        PERFORM notify_workers(v_again.queues || release_lanes(v_again.released));
        RETURN QUERY SELECT unnest(v_again.ids), false;
    END IF;
END $$;
