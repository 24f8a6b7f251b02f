-- begin_claim: the first stage of a claim. Refuses a worker that is not registered, makes ready
-- what is due, and determines where to look: which queues, which paused tasks to skip, and whether
-- groups take turns.
CREATE OR REPLACE FUNCTION begin_claim(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_due    record;
    v_is_due boolean;   -- or NULL
BEGIN
    -- Check everything that may be due in one query, since in most claims nothing is.
    SELECT current_setting('transaction_isolation') = 'read committed'
            AND current_setting('array_nulls') = 'on'
            AND EXISTS (SELECT FROM workers WHERE id = r.worker) AS allowed,
        (SELECT true FROM jobs
            WHERE has_status(status, 'scheduled') AND scheduled_at::timestamptz <= r.now
            LIMIT 1) AS jobs,
        (SELECT true FROM jobs
            WHERE expires_at::timestamptz <= r.now AND expires_at IS NOT NULL
                AND NOT has_status(status, 'doing') AND NOT was_attempted LIMIT 1) AS expiries,
        (SELECT true FROM jobs WHERE has_status(status, 'todo') AND group_key IS NOT NULL
         ORDER BY jobs.queue::text USING < LIMIT 1) AS groups,
        -- Of other queues, what an open snapshot keeps in the index may be in front.
        CASE WHEN r.served IS NOT NULL THEN true ELSE (SELECT true FROM jobs
            WHERE has_status(status, 'todo') AND lock IS NOT NULL AND group_key IS NULL
            ORDER BY jobs.queue::text USING < LIMIT 1) END AS tokens,
        (SELECT true FROM ends WHERE look_at <= r.now LIMIT 1) AS ends,
        (SELECT true FROM batch_events WHERE due_at <= r.now LIMIT 1) AS batches,
        coalesce(
            (SELECT true FROM lanes WHERE coalesce(look_at, stopped_until) <= r.now LIMIT 1),
            (SELECT true FROM gates WHERE look_at <= r.now LIMIT 1),
            (SELECT true FROM gate_looks LIMIT 1)) AS looks,
        EXISTS (SELECT FROM pauses) AS pauses   -- not NULL, since NULL AND f() calls f
    INTO v_due;
    v_is_due := coalesce(v_due.jobs, v_due.expiries, v_due.ends, v_due.batches, v_due.looks);
    r.holds_none := (v_is_due OR v_due.pauses OR NOT v_due.allowed) IS NOT TRUE;
    IF NOT r.holds_none THEN
        v_is_due := settle_due(r.worker, greatest(r.asked, 250), v_due);
    END IF;
    -- What was due may include jobs with a group, and with a lane.
    r.fair := coalesce(v_due.groups, v_is_due, false);
    r.tokens := coalesce(v_due.tokens, v_is_due, false);
    r.queues := coalesce(r.served, ready_queues(r.fair, r.tokens));
    r.paused := '{}';
    IF v_due.pauses THEN
        r := heed_pauses(r);
    END IF;
    IF r.fair THEN
        r := begin_turns(r);
    END IF;
END $$;
