-- pass_gates: the stage of a claim that keeps those of the jobs `ids` that nothing stops: their
-- task is not paused, and their limit has a slot and a token. The others now wait at their gates,
-- and no claim meets them until these open.
--
-- Lanes of stopped jobs stay out of `used`, so tidy_up gives them back. Lanes that waited for a
-- retry wait for it again.
CREATE OR REPLACE FUNCTION pass_gates(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_slots record;   -- the answer of take_slots
BEGIN
    IF NOT r.limited AND NOT EXISTS (
        SELECT FROM jobs WHERE id = ANY (r.ids) AND task IN (SELECT unnest(r.paused))
    ) THEN
        RETURN;   -- none of them has a gate
    END IF;
    SELECT * INTO v_slots FROM take_slots(r.ids, r.slots - (r.asked - r.wanted), r.paused);
    r.marked := v_slots.closed <> '{}';
    IF r.marked AND v_slots.ids = '{}' AND r.since IS NULL THEN
        r.lanes_left := r.lanes_left - clear_front(r, v_slots.closed);
    END IF;
    r.ids := v_slots.ids;
    IF v_slots.lacks THEN
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
