-- win_heads: the stage of a claim that takes lanes and adds their next jobs to `ids`. If other
-- claims were faster, it tries spare lanes instead.
CREATE OR REPLACE FUNCTION win_heads(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_spare record;
    v_lost  integer;
    v_read  bigint;
BEGIN
    SELECT coalesce(array_agg(own.lock), '{}'), array_agg(own.job_id) INTO r.won, r.retries
    FROM acquire_lanes(r.worker, r.served, r.lanes, r.seen, cardinality(r.lanes)) AS own;
    r.lanes_left := r.lanes_left - cardinality(r.lanes);   -- the names of lost ones are locked, too
    v_lost := cardinality(r.lanes) - cardinality(r.won);
    IF v_lost > 0 AND NOT r.fair AND r.since IS NULL THEN
        SELECT * INTO v_spare
        FROM spare_lanes(r.queues, r.wanted, r.windows, r.lost || r.lanes, r.ids, r.lanes_left);
        IF v_spare.locks IS NOT NULL THEN
            SELECT r.won || array_agg(own.lock), r.retries || array_agg(own.job_id)
            INTO r.won, r.retries
            FROM acquire_lanes(r.worker, r.served, v_spare.locks, v_spare.seen, v_lost) AS own;
            r.lanes_left := r.lanes_left - least(cardinality(v_spare.locks), v_lost);
            r.lanes := r.lanes || v_spare.locks;
            r.seen := r.seen || v_spare.seen;
        END IF;
    END IF;

    -- New statements, so they read what was committed before we got the lanes.
    IF r.watches THEN
        v_read := entries_read();
    END IF;
    SELECT array_agg(next.id), coalesce(array_agg(won.lock), '{}'),
        r.limited OR coalesce(bool_or(next.limited), false)
    INTO r.heads, r.used, r.limited
    FROM unnest(r.won, r.retries) AS won(lock, job_id)
    CROSS JOIN LATERAL lane_heads(ARRAY[won.lock], r.floors) AS next
    WHERE (next.queue = ANY (r.queues) OR r.served IS NULL)
      AND won.job_id IS NULL AND NOT next.several AND NOT next.aside
      AND (next.start_before IS NULL OR next.start_before > r.now)
      AND (NOT next.touched OR try_lock_job(next.id));
    IF r.watches THEN   -- apart, so that other sessions need not plan the next condition
        IF reads_much(v_read, cardinality(r.won)) THEN
            PERFORM leave_front(v_read);
        END IF;
    END IF;
    -- A job that waits for its retry goes before the head of its lane.
    IF cardinality(array_remove(r.retries, NULL)) > 0 THEN
        SELECT array_cat(r.heads, array_agg(job.id)), array_cat(r.used, array_agg(again.lock)),
            r.limited OR coalesce(bool_or(job.limited), false)
        INTO r.heads, r.used, r.limited
        FROM unnest(r.won, r.retries) AS again(lock, job_id)
        CROSS JOIN LATERAL (
            SELECT id, queue::text AS queue, limit_key IS NOT NULL AS limited
            FROM jobs WHERE id = again.job_id LIMIT 1
        ) AS job
        WHERE job.queue = ANY (r.queues) OR r.served IS NULL;
    END IF;
    r.ids := array_cat(r.ids, r.heads);
END $$;
