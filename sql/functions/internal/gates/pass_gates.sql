-- pass_gates: the stage of a claim that keeps those of the jobs `ids` that nothing stops: their
-- task is not paused, and their limit has a slot and a token. The others now wait at their gates,
-- and no claim meets them until these open.
--
-- A job with several lanes and a limit starts after the others (start_several). If so many jobs are
-- ahead of it that none of the worker's slots is left, nothing behind it starts (see take_slots).
--
-- Lanes of stopped jobs stay out of `used`, so tidy_up gives them back. Lanes that waited for a
-- retry wait for it again.
CREATE OR REPLACE FUNCTION pass_gates(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_slots    record;   -- the answer of take_slots
    v_early    bigint;   -- the best job with several lanes that lacks a slot
    v_priority integer;
BEGIN
    IF NOT r.limited AND NOT EXISTS (
        SELECT FROM jobs WHERE id = ANY (r.ids) AND task IN (SELECT unnest(r.paused))
    ) THEN
        RETURN;   -- none of them has a gate
    END IF;
    IF r.limited AND cardinality(r.several) > 0 THEN
        SELECT job.id, job.priority INTO v_early, v_priority
        FROM (
            SELECT id, priority, locks IS NOT NULL AND limit_key IS NOT NULL AS must_begin,
                row_number() OVER (ORDER BY priority DESC, id) AS place
            FROM jobs WHERE id = ANY (r.ids || r.several)
        ) AS job
        WHERE job.must_begin AND job.place > r.slots - (r.asked - r.wanted)
        ORDER BY job.place LIMIT 1;
        IF v_early IS NOT NULL THEN
            r.ids := ARRAY(SELECT id FROM jobs WHERE id = ANY (r.ids)
                AND (priority, v_early) > (v_priority, id));
        END IF;
    END IF;
    SELECT * INTO v_slots FROM take_slots(r.ids, r.slots - (r.asked - r.wanted), r.paused);
    r.marked := v_slots.closed <> '{}';
    IF r.marked AND v_slots.ids = '{}' AND r.since IS NULL THEN
        r.lanes_left := r.lanes_left - clear_front(r, v_slots.closed);
    END IF;
    r.ids := v_slots.ids;
    IF v_slots.lacks OR v_early IS NOT NULL THEN
        r.wanted := cardinality(r.ids);   -- nothing behind it starts
        r.several := '{}';
    END IF;
    SELECT coalesce(array_agg(lock) FILTER (WHERE fits), '{}'),
        coalesce(array_agg(id) FILTER (WHERE NOT fits), '{}')
    INTO r.used, r.kept
    FROM (SELECT lock, id, id IN (SELECT unnest(r.ids)) AS fits
        FROM unnest(r.used, r.heads) AS head(lock, id)) AS judged;
    IF r.kept && r.retries THEN
        r.won := ARRAY(SELECT unnest(r.won) EXCEPT SELECT reserve_lanes(r.won, r.retries, r.kept));
    END IF;
END $$;
