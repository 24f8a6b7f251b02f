-- finish: moves jobs that a worker has ended from `jobs` to the history. The reply hands the next
-- job of each lane, and the next for each slot of a limit, to the same worker: no fetch, no
-- wake-up, no gap. One call finishes all jobs that ended while the previous call was under way.
--
-- It locks lanes first, then gates of limits, then jobs (see lock_lanes). It waits no longer than a
-- moment for a user's open transaction.
--
-- Returns one row for each ended job that was still ours (finished_id), and one for each job handed
-- over (next). If an open transaction has the job or its lane locked, the job is still ours and has
-- not ended (busy_id): report it again. A job without a row now belongs to another worker, and
-- nothing of it was changed.
CREATE OR REPLACE FUNCTION finish(
    p_worker   uuid,
    p_queues   text[],        -- the queues that the worker serves (NULL: all)
    p_want     integer,       -- how many jobs it will take over at most (0 if it stops)
    p_ids      bigint[],
    p_claims   uuid[],        -- the claims that started the jobs
    p_statuses job_status[],  -- succeeded, failed, ...
    p_errors   jsonb[],       -- what went wrong, or NULL
    p_results  jsonb[] DEFAULT NULL,      -- what the tasks returned
    p_forget   job_status[] DEFAULT '{}', -- jobs with these statuses leave no history
    p_floors   jsonb DEFAULT NULL,        -- where to begin in some lanes (see line_from)
    p_horizon  text DEFAULT NULL          -- as final_ids gave it in the session of these floors
) RETURNS TABLE (finished_id bigint, next jobs, busy_id bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_held    record;
    v_stopped text[];
    v_shared  text[];   -- lanes that some of the jobs shared
    v_paused  text[] := '{}';   -- tasks that are paused
    v_done    record;
    v_next    record;
    v_read    bigint;   -- index entries, as entries_read() counts them
BEGIN
    PERFORM require_settings();
    IF p_horizon IS NOT NULL THEN
        p_floors := usable_floors(p_floors, p_horizon);
        v_read := entries_read();
    ELSE
        p_floors := NULL;
    END IF;
    SELECT * INTO v_held FROM lock_lanes(p_ids, p_claims);
    IF v_held.busy <> '{}' THEN
        p_ids := mask_ids(p_ids, v_held.busy);
        RETURN QUERY SELECT NULL::bigint, NULL::jobs, id FROM unnest(v_held.busy) AS id;
    END IF;

    SELECT array_agg(b.id) AS ids,
           array_agg(b.lock)
               FILTER (WHERE b.lock IS NOT NULL AND b.lanes IS NOT DISTINCT FROM NULL) AS lanes,
           array_agg(b.lanes) FILTER (WHERE b.lanes IS DISTINCT FROM NULL) AS several,
           array_agg(b.id)
               FILTER (WHERE b.lock IS NOT NULL
                   AND b.status = 'failed' AND b.on_failure = 'halt') AS halts,
           array_agg(limit_gate(b.limit_key)) FILTER (WHERE b.limit_key IS NOT NULL) AS gates
    INTO v_done FROM archive_jobs(p_ids, p_claims, p_statuses, p_errors, p_results, p_forget) AS b;

    RETURN QUERY SELECT id, NULL::jobs, NULL::bigint FROM unnest(v_done.ids) AS id;
    IF v_done.gates IS NOT NULL THEN
        IF p_want = 0
            OR (SELECT true FROM gated_jobs WHERE gate = ANY (v_done.gates) LIMIT 1) IS NULL
        THEN
            PERFORM notify_workers(open_gates(v_done.gates, true));
            v_done.gates := NULL;
        END IF;
    END IF;
    IF v_done.several IS NOT NULL THEN
        v_done.lanes := v_done.lanes || ARRAY(SELECT leave_lanes(v_done.several));
        v_shared := ARRAY(SELECT DISTINCT unnest(job.shared) FROM unnest(v_done.several) AS job);
    END IF;
    IF v_done.lanes IS NULL AND v_done.gates IS NULL THEN
        RETURN;
    END IF;
    -- Leave alone any lane that another worker now holds.
    v_stopped := v_held.stopped;
    IF v_stopped <> '{}' THEN
        v_stopped := ARRAY(SELECT unnest(v_held.stopped) INTERSECT SELECT unnest(v_done.lanes));
    END IF;
    IF v_stopped <> '{}' OR v_done.halts IS NOT NULL THEN
        v_stopped := keep_stopped(v_stopped, v_done.halts);
    END IF;
    IF v_shared <> '{}' THEN
        v_stopped := ARRAY(SELECT unnest(v_stopped) INTERSECT SELECT unnest(v_done.lanes));
        PERFORM notify_workers(wake_readers(v_shared));
    END IF;

    IF (SELECT true FROM pauses LIMIT 1) THEN
        v_paused := ARRAY(SELECT task FROM paused_tasks);
        IF EXISTS (SELECT FROM paused_queues) THEN
            -- The next jobs of our lanes and slots are not tokens.
            p_queues := leave_out_paused(coalesce(p_queues,
                ready_queues() || ARRAY(SELECT queue FROM lane_heads(v_done.lanes, p_floors))
                    || ARRAY(SELECT queue FROM slot_heads(v_done.gates, v_paused))));
        END IF;
    END IF;
    -- New statements: the next job of each lane is read after the lane was locked.
    SELECT array_agg(f.id) AS ids,
        v_stopped || array_agg(f.lock) FILTER (WHERE f.lock IS NOT NULL) AS lanes,
        array_agg(f.gate) FILTER (WHERE f.gate IS NOT NULL) AS gates
    INTO v_next
    FROM handover_candidates(
        p_worker, v_done.lanes, v_done.gates, p_queues, p_want, v_paused, p_floors) AS f;

    IF v_next.ids IS NOT NULL THEN
        RETURN QUERY SELECT NULL::bigint, started, NULL::bigint
            FROM start_jobs(p_worker, v_next.ids, false, v_next.gates IS NOT NULL) AS started;
    END IF;
    IF cardinality(v_next.gates) IS DISTINCT FROM cardinality(v_done.gates) THEN
        PERFORM notify_workers(open_gates(
            ARRAY(SELECT unnest(v_done.gates) EXCEPT ALL SELECT unnest(v_next.gates)), true));
    END IF;

    IF cardinality(v_next.lanes) < cardinality(v_done.lanes) THEN
        -- This worker would claim next anyway, but notify the others too: a better job may take its
        -- slot, it may stop, or it may not serve the queue of a token.
        PERFORM notify_workers(release_lanes(
            ARRAY(SELECT unnest(v_done.lanes) EXCEPT SELECT unnest(v_next.lanes)),
            p_floors => p_floors));
    END IF;
    IF p_floors IS NULL AND reads_much(v_read, cardinality(v_done.lanes)) THEN
        PERFORM leave_front(v_read);
    END IF;
END $$;
