-- pass_gates: the stage of a claim that keeps those of the jobs `ids` that nothing stops: their
-- task is not paused, and their limit has a slot and a token. The others now wait for whatever
-- stopped them, and no claim meets them until then.
--
-- Lanes of stopped jobs stay out of `used`, so tidy_up gives them back. Lanes that waited for a
-- retry wait for it again.
CREATE OR REPLACE FUNCTION pass_gates(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_aside bigint[] := '{}';  -- jobs of a paused task
    v_slots record;            -- the answer of take_slots
BEGIN
    IF r.paused <> '{}' THEN
        -- Before the limits, so that these jobs take no slots.
        v_aside := set_aside(r.ids, r.paused);
        r.ids := ARRAY(SELECT unnest(r.ids) EXCEPT SELECT unnest(v_aside));
        IF v_aside <> '{}' AND r.ids = '{}' THEN
            r.lanes_left := r.lanes_left - pause_front(
                r.worker, r.served, r.queues, r.paused, v_aside, r.lost);
        END IF;
        r.marked := v_aside <> '{}';
    END IF;
    IF r.limited THEN
        SELECT * INTO v_slots FROM take_slots(r.ids, r.slots - (r.asked - r.wanted));
        r.marked := r.marked OR v_slots.full_keys <> '{}';
        IF v_slots.full_keys <> '{}' AND v_slots.ids = '{}' THEN
            PERFORM limit_front(r.queues, v_slots.full_keys, r.ids);
        END IF;
        r.ids := v_slots.ids;
    END IF;
    IF r.limited OR v_aside <> '{}' THEN
        SELECT coalesce(array_agg(lock) FILTER (WHERE fits), '{}'),
            coalesce(array_agg(id) FILTER (WHERE NOT fits), '{}')
        INTO r.used, r.kept
        FROM (SELECT lock, id, id IN (SELECT unnest(r.ids)) AS fits
            FROM unnest(r.used, r.heads) AS head(lock, id)) AS judged;
        IF r.kept && r.retries THEN
            r.won := ARRAY(SELECT unnest(r.won)
                EXCEPT SELECT reserve_lanes(r.won, r.retries, r.kept));
        END IF;
    END IF;
END $$;
