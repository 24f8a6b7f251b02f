-- claim: starts up to p_limit jobs for this worker (status `doing`), at most one of each lane.
--
-- Free jobs are taken by their own row (FOR UPDATE SKIP LOCKED). A lane is taken by its row in
-- `lanes`. Its head is read only then, in a new statement with a fresh snapshot: the job that was
-- seen before may no longer be the next. Lane candidates are read without row locks, because row
-- locks would make claims deadlock.
--
-- The cost does not grow with the number of waiting jobs. A claim looks at a window of tokens in
-- front. Tokens of busy lanes that it sees there are set `blocked`, which takes them out of the
-- index. The window widens from round to round, so a few calls clear a burst of one lane in front
-- of everything. Jobs that a user's open transaction has locked cannot be cleared: the last round
-- looks past some thousands of them.
--
-- Jobs with several lanes or shared ones start one by one, after the others (start_in_lanes).
--
-- While jobs with a group wait, the groups take turns (see fair_candidates), and no job is claimed
-- ahead: the worker would run it before the next group's. p_turns is what the setting inturn.turns
-- said after the worker's last claim.
--
-- A job of a paused task is set aside when a claim meets it, once its lane is won and it is the
-- head (set_aside). So it costs the claims after that nothing.
--
-- A job with a limit starts only if it can begin now: jobs that are claimed ahead would keep slots
-- of their limit from others. It takes the slot after its lane is won and it is the head.
CREATE OR REPLACE FUNCTION claim(
    p_worker uuid,
    p_queues text[],     -- NULL: all queues
    p_limit  integer,
    p_patient boolean DEFAULT false, -- give up if another claim is clearing the front
    p_slots   integer DEFAULT NULL,  -- how many of the jobs can begin now; NULL: all
    p_turns   jsonb   DEFAULT NULL   -- where the turns of the groups continue
) RETURNS SETOF jobs
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_material = off
SET jit = off
AS $$
DECLARE
    v_window  integer := 2 * p_limit;
    v_wanted  integer := p_limit;
    -- How many lanes it may still win. Each keeps an advisory lock until the end, and the server's
    -- lock table is finite.
    v_lanes   integer := 512;
    v_now     timestamptz := clock();
    v_due     record;
    v_queues  text[];
    v_look    record;
    v_shares  integer[];  -- how many free jobs to read in each queue
    v_windows integer[];  -- how many tokens to read in each queue
    v_spare   record;     -- more lanes, if other claims took some of these
    v_ids     bigint[];   -- the jobs to start
    v_short   boolean := false;  -- other claims took some of the free jobs
    v_won     text[];     -- lanes that are ours
    v_retries bigint[];   -- the jobs that these lanes wait for, or NULL
    v_heads   bigint[];   -- the next jobs of these lanes, as far as we may start them
    v_used    text[];     -- the lanes in which we start a job
    v_paused  text[] := '{}';  -- tasks that are paused
    v_aside   bigint[];   -- those of the jobs that are of such a task
    v_limited boolean;    -- some of the jobs have a limit
    v_slots   record;     -- what take_slots says of them
    v_marked  boolean;    -- some of them wait for their limit now, or for the end of a pause
    v_fair    boolean;    -- jobs with a group wait, so the groups take turns
    v_kept    bigint[];   -- those that stay tokens
    v_lost    text[] := '{}';  -- lanes that others took, or have locked
    v_several bigint;          -- a job with several lanes, or shared ones
    v_try     record;          -- what became of it
    v_missed  text[] := '{}';  -- lanes that such jobs have lost
    v_started integer;
    v_blocked bigint;
BEGIN
    PERFORM require_read_committed();
    PERFORM require_registered(p_worker);
    -- One look at everything that may be due, since in most claims nothing is.
    SELECT (SELECT true FROM jobs
            WHERE status = 'scheduled' AND scheduled_at <= v_now LIMIT 1) AS jobs,
        (SELECT true FROM jobs
            WHERE expires_at <= v_now AND expires_at IS NOT NULL AND status <> 'doing'
                AND NOT was_attempted LIMIT 1) AS expiries,
        (SELECT true FROM ends WHERE look_at <= v_now LIMIT 1) AS ends,
        (SELECT true FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
         ORDER BY jobs.queue LIMIT 1) AS groups,
        (SELECT true FROM batch_events WHERE due_at <= v_now LIMIT 1) AS batches,
        coalesce(
            (SELECT true FROM lanes WHERE coalesce(look_at, stopped_until) <= v_now LIMIT 1),
            (SELECT true FROM limit_keys WHERE look_at <= v_now LIMIT 1),
            (SELECT true FROM limit_looks LIMIT 1)) AS looks,
        (SELECT true FROM queue_pauses LIMIT 1) AS pauses,
        (SELECT true FROM task_pauses LIMIT 1) AS task_pauses
    INTO v_due;
    IF v_due.jobs THEN
        PERFORM promote(1000);   -- before we have a transaction id, see await_parents
    END IF;
    IF v_due.expiries THEN
        PERFORM expire_jobs(500, 50);   -- those that are left do not start, see start_jobs
    END IF;
    IF coalesce(v_due.ends, v_due.jobs, v_due.expiries) THEN   -- the calls above may leave some
        PERFORM settle_ends(100, 1000);
    END IF;
    IF coalesce(v_due.batches, v_due.ends, v_due.jobs, v_due.expiries) THEN
        PERFORM settle_batches(2000);
    END IF;
    IF coalesce(v_due.looks, v_due.ends, v_due.expiries) THEN   -- these may leave some, too
        PERFORM resume_due(100);
    END IF;
    IF v_due.task_pauses THEN
        PERFORM resume_tasks(1000);
        v_paused := paused_task_names();
    END IF;
    -- All that was due may have made jobs with a group ready.
    v_fair := coalesce(v_due.groups, v_due.jobs, v_due.ends, v_due.expiries, v_due.batches,
        v_due.looks, v_due.task_pauses, false);
    v_queues := coalesce(p_queues, ready_queues(v_fair));
    IF v_due.pauses THEN   -- nobody serves a paused queue
        DELETE FROM queue_pauses WHERE queue = ANY (ARRAY(
            SELECT queue FROM queue_pauses WHERE until <= v_now FOR UPDATE SKIP LOCKED));
        v_queues := leave_out_paused(v_queues);
        p_queues := v_queues;
    END IF;
    v_fair := v_fair AND groups_wait(v_queues);
    IF v_fair THEN
        p_turns := coalesce(p_turns, '{}');
        p_limit := least(p_limit, p_slots);
        v_wanted := p_limit;
        v_window := 2 * p_limit;
    END IF;

    FOR round IN 1..4 LOOP
        -- With many queues, read and lock only the best of all. If other claims were faster, the
        -- next round locks what it reads.
        v_shares := CASE WHEN cardinality(v_queues) > 1 AND NOT v_short
                         THEN front_shares(v_queues, v_wanted, false)
                         ELSE array_fill(v_wanted, ARRAY[cardinality(v_queues)]) END;
        v_windows := CASE WHEN cardinality(v_queues) > 1
                          THEN front_shares(v_queues, v_window, true)
                          ELSE ARRAY[v_window] END;
        IF v_fair THEN
            SELECT * INTO v_look FROM fair_candidates(
                v_queues, v_shares, v_wanted, v_windows, v_window, v_lost, v_lanes, p_turns);
            p_turns := v_look.turns;
        ELSE
            SELECT * INTO v_look
            FROM claim_candidates(
                v_queues, v_shares, v_wanted, v_windows, v_window, v_lost, v_lanes);
        END IF;
        v_ids := v_look.free;
        IF cardinality(v_queues) > 1 THEN
            v_short := NOT v_short
                AND cardinality(v_ids) < (SELECT sum(share) FROM unnest(v_shares) AS share);
        END IF;
        v_won := '{}';
        v_used := '{}';
        v_heads := NULL;
        v_limited := v_look.limited;
        v_marked := false;
        v_kept := '{}';
        IF v_look.lanes <> '{}' THEN
            SELECT coalesce(array_agg(w.lock), '{}'), array_agg(w.job_id) INTO v_won, v_retries
            FROM acquire_lanes(p_worker, p_queues, v_look.lanes, v_look.seen,
                cardinality(v_look.lanes)) AS w;
            IF cardinality(v_won) < cardinality(v_look.lanes) AND NOT v_fair THEN
                SELECT * INTO v_spare
                FROM spare_lanes(v_queues, v_wanted, v_windows, v_lost || v_look.lanes, v_ids,
                    v_lanes);
                IF v_spare.locks IS NOT NULL THEN
                    SELECT v_won || array_agg(w.lock), v_retries || array_agg(w.job_id)
                    INTO v_won, v_retries
                    FROM acquire_lanes(
                        p_worker, p_queues, v_spare.locks, v_spare.seen,
                        cardinality(v_look.lanes) - cardinality(v_won)) AS w;
                    v_look.lanes := v_look.lanes || v_spare.locks;
                    v_look.seen := v_look.seen || v_spare.seen;
                END IF;
            END IF;

            -- A new statement, so it reads what was committed before we got the lanes.
            -- A job that waits for its retry goes before the head of its lane.
            SELECT array_agg(next.id), coalesce(array_agg(won.lock), '{}'),
                v_limited OR coalesce(bool_or(next.limited), false)
            INTO v_heads, v_used, v_limited
            FROM unnest(v_won, v_retries) AS won(lock, job_id)
            CROSS JOIN LATERAL (
                SELECT id, queue, false AS touched, NULL::timestamptz AS start_before,
                    limit_key IS NOT NULL AS limited, false AS several, false AS aside
                FROM jobs WHERE id = won.job_id
                UNION ALL
                SELECT head.id, head.queue, head.touched, head.start_before, head.limited,
                    head.several, head.aside
                FROM lane_heads(ARRAY[won.lock]) AS head
                WHERE won.job_id IS NULL
            ) AS next
            WHERE (next.queue = ANY (v_queues) OR p_queues IS NULL)
              AND NOT next.several AND NOT next.aside
              AND (next.start_before IS NULL OR next.start_before > clock())
              AND (NOT next.touched OR try_lock_job(next.id));
            v_ids := v_ids || v_heads;
        END IF;

        v_lanes := v_lanes - cardinality(v_won);
        v_aside := '{}';
        IF v_paused <> '{}' THEN
            -- Before their limits: such a job takes no slot.
            v_aside := set_aside(v_ids, v_paused);
            v_ids := ARRAY(SELECT unnest(v_ids) EXCEPT SELECT unnest(v_aside));
            IF v_aside <> '{}' AND v_ids = '{}' THEN
                v_lanes := v_lanes - pause_front(
                    p_worker, p_queues, v_queues, v_paused, v_aside, v_lost);
            END IF;
            v_marked := v_aside <> '{}';
        END IF;
        IF v_limited THEN
            SELECT * INTO v_slots
            FROM take_slots(v_ids, coalesce(p_slots, p_limit) - (p_limit - v_wanted));
            v_marked := v_marked OR v_slots.full_keys <> '{}';
            IF v_slots.full_keys <> '{}' AND v_slots.ids = '{}' THEN
                PERFORM limit_front(v_queues, v_slots.full_keys, v_ids);
            END IF;
            v_ids := v_slots.ids;
        END IF;
        IF v_limited OR v_aside <> '{}' THEN
            -- Lanes of jobs that cannot start go back. Those that waited for a retry wait again.
            SELECT coalesce(array_agg(lock) FILTER (WHERE fits), '{}'),
                coalesce(array_agg(id) FILTER (WHERE NOT fits), '{}')
            INTO v_used, v_kept
            FROM (SELECT lock, id, id IN (SELECT unnest(v_ids)) AS fits
                FROM unnest(v_used, v_heads) AS head(lock, id)) AS judged;
            IF v_kept && v_retries THEN
                v_won := ARRAY(SELECT unnest(v_won)
                    EXCEPT SELECT reserve_lanes(v_won, v_retries, v_kept));
            END IF;
        END IF;

        IF v_ids <> '{}' THEN
            RETURN QUERY SELECT * FROM start_jobs(p_worker, v_ids);
            GET DIAGNOSTICS v_started = ROW_COUNT;
            v_wanted := v_wanted - v_started;
        END IF;

        IF v_look.lanes <> '{}' THEN
            -- Do not try these lanes again: a faster claim may not have committed, so we cannot
            -- see it.
            v_lost := v_lost || ARRAY(SELECT unnest(v_look.lanes) EXCEPT SELECT unnest(v_used));

            -- Block what stays behind: tokens of held lanes, and those that were not the next job.
            IF EXISTS (SELECT unnest(v_look.seen) EXCEPT SELECT unnest(v_heads)) THEN
                v_look.behind := v_look.behind
                    || CASE WHEN v_kept <> '{}' THEN mask_ids(v_look.seen, v_kept)
                            ELSE v_look.seen END;
                v_look.behind_locks := v_look.behind_locks || v_look.lanes;
            END IF;
        END IF;
        v_blocked := 0;
        IF v_look.behind IS NOT NULL THEN
            v_blocked := block_behind(p_queues, v_look.behind, v_look.behind_locks);
        END IF;
        -- Give back the lanes that we cannot use: they are empty, their head is in a queue that we
        -- do not serve, or an open transaction has it locked.
        IF cardinality(v_used) < cardinality(v_won) THEN
            PERFORM notify_workers(release_lanes(
                ARRAY(SELECT unnest(v_won) EXCEPT SELECT unnest(v_used))));
        END IF;

        IF v_look.several <> '{}' THEN
            v_lanes := v_lanes - 8 * cardinality(v_look.several);
            FOREACH v_several IN ARRAY v_look.several LOOP
                -- It would lose the lane that another one has just lost.
                CONTINUE WHEN v_missed <> '{}'
                    AND (SELECT locks && v_missed FROM jobs WHERE id = v_several);
                SELECT * INTO v_try FROM start_in_lanes(p_worker, p_queues, v_several,
                    coalesce(p_slots, p_limit) - (p_limit - v_wanted), v_paused);
                IF (v_try.started).id IS NOT NULL THEN
                    RETURN NEXT v_try.started;
                    v_wanted := v_wanted - 1;
                ELSIF v_try.lost IS NOT NULL THEN
                    v_missed := v_missed || v_try.lost;
                END IF;
            END LOOP;
            v_lost := v_lost || v_missed;
        END IF;
        IF v_look.shut IS NOT NULL THEN
            v_blocked := v_blocked + cardinality(block_in_lanes(v_look.shut));
        END IF;

        -- Look again if the front has moved or the window can reach further, if we lost free jobs,
        -- or if we lost lanes and have nothing. While another claim clears the front, take what
        -- there is. With nothing, a patient caller returns. It cannot do so for ever: the other
        -- claim may be stuck.
        EXIT WHEN v_wanted <= 0 OR v_lanes <= 0
            OR (v_blocked IS NULL AND (p_patient OR v_wanted < p_limit)) OR NOT (
            coalesce(v_blocked, 0) > 0 OR v_marked OR v_look.more AND v_window < v_look.widest
            OR v_short OR v_look.several <> '{}'
            OR v_wanted = p_limit AND cardinality(v_used) < cardinality(v_look.lanes)
        );
        IF v_look.behind IS NOT NULL OR v_look.shut IS NOT NULL OR v_missed <> '{}' THEN
            v_window := CASE WHEN round = 3 AND v_look.widest > 2000 THEN v_look.widest
                ELSE least(2000, 8 * v_window) END;
        END IF;
    END LOOP;
    IF v_fair THEN
        PERFORM set_config('inturn.turns', p_turns::text, true);
    END IF;
END $$;
