-- begin_claim: the first stage of a claim. Refuses a worker that is not registered, makes ready
-- what is due, and determines where to look: which queues, which paused tasks to skip, and whether
-- groups take turns.
CREATE OR REPLACE FUNCTION begin_claim(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_now    timestamptz := clock();
    v_due    record;
    v_is_due boolean;   -- or NULL
BEGIN
    -- Check everything that may be due in one query, since in most claims nothing is.
    SELECT current_setting('transaction_isolation') = 'read committed'
            AND EXISTS (SELECT FROM workers WHERE id = r.worker) AS allowed,
        (SELECT true FROM jobs
            WHERE status = 'scheduled' AND scheduled_at::timestamptz <= v_now LIMIT 1) AS jobs,
        (SELECT true FROM jobs
            WHERE expires_at::timestamptz <= v_now AND expires_at IS NOT NULL
                AND NOT (status = 'doing') AND NOT was_attempted LIMIT 1) AS expiries,
        (SELECT true FROM ends WHERE look_at <= v_now LIMIT 1) AS ends,
        (SELECT true FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
         ORDER BY jobs.queue::text LIMIT 1) AS groups,
        (SELECT true FROM batch_events WHERE due_at <= v_now LIMIT 1) AS batches,
        coalesce(
            (SELECT true FROM lanes WHERE coalesce(look_at, stopped_until) <= v_now LIMIT 1),
            (SELECT true FROM gates WHERE look_at <= v_now LIMIT 1),
            (SELECT true FROM gate_looks LIMIT 1)) AS looks,
        EXISTS (SELECT FROM pauses) AS pauses   -- not NULL, since NULL AND f() calls f
    INTO v_due;
    IF NOT v_due.allowed THEN   -- one of these raises the error
        PERFORM require_read_committed();
        PERFORM require_registered(r.worker);
    END IF;
    IF v_due.jobs THEN
        PERFORM promote(1000);   -- before we have a transaction id (see await_parents)
    END IF;
    IF v_due.pauses AND end_pauses() THEN
        v_due.looks := true;
    END IF;
    v_is_due := coalesce(v_due.jobs, v_due.expiries, v_due.ends, v_due.batches, v_due.looks);
    IF v_is_due THEN
        -- A worker that runs many jobs must settle as many.
        PERFORM settle_due(greatest(r.asked, 250), v_due.jobs, v_due.expiries, v_due.ends,
            v_due.batches, v_due.looks);
    END IF;
    -- What was due may include jobs with a group.
    r.fair := coalesce(v_due.groups, v_is_due, false);
    r.queues := coalesce(r.served, ready_queues(r.fair));
    r.paused := '{}';
    IF v_due.pauses THEN
        r.paused := ARRAY(SELECT task FROM paused_tasks);
        IF EXISTS (SELECT FROM paused_queues) THEN   -- no worker serves a paused queue
            r.queues := leave_out_paused(r.queues);
            r.served := r.queues;
        END IF;
    END IF;
    IF r.fair THEN
        r.fair := groups_wait(r.queues);
        IF r.fair THEN
            r.turns := coalesce(r.turns, '{}');
            r.asked := least(r.asked, r.slots);
        END IF;
    END IF;
END $$;
