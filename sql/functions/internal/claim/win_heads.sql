-- win_heads: the stage of a claim that takes lanes and adds their next jobs to `ids`. If other
-- claims were faster, it tries spare lanes instead.
CREATE OR REPLACE FUNCTION win_heads(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_spare record;
BEGIN
    SELECT coalesce(array_agg(own.lock), '{}'), array_agg(own.job_id) INTO r.won, r.retries
    FROM acquire_lanes(r.worker, r.served, r.lanes, r.seen, cardinality(r.lanes)) AS own;
    IF cardinality(r.won) < cardinality(r.lanes) AND NOT r.fair AND r.since IS NULL THEN
        SELECT * INTO v_spare
        FROM spare_lanes(r.queues, r.wanted, r.windows, r.lost || r.lanes, r.ids, r.lanes_left);
        IF v_spare.locks IS NOT NULL THEN
            SELECT r.won || array_agg(own.lock), r.retries || array_agg(own.job_id)
            INTO r.won, r.retries
            FROM acquire_lanes(
                r.worker, r.served, v_spare.locks, v_spare.seen,
                cardinality(r.lanes) - cardinality(r.won)) AS own;
            r.lanes := r.lanes || v_spare.locks;
            r.seen := r.seen || v_spare.seen;
        END IF;
    END IF;
    r.lanes_left := r.lanes_left - cardinality(r.won);

    -- A new statement, so it reads what was committed before we got the lanes. A job that waits for
    -- its retry goes before the head of its lane.
    SELECT array_agg(next.id), coalesce(array_agg(won.lock), '{}'),
        r.limited OR coalesce(bool_or(next.limited), false)
    INTO r.heads, r.used, r.limited
    FROM unnest(r.won, r.retries) AS won(lock, job_id)
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
    WHERE (next.queue = ANY (r.queues) OR r.served IS NULL)
      AND NOT next.several AND NOT next.aside
      AND (next.start_before IS NULL OR next.start_before > clock())
      AND (NOT next.touched OR try_lock_job(next.id));
    r.ids := array_cat(r.ids, r.heads);
END $$;
