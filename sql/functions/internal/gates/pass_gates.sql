-- pass_gates: the stage of a claim that keeps those of the jobs `ids` that nothing stops: their
-- task is not paused, and their limit has a slot and a token. The others now wait at their gates,
-- and no claim meets them until these open.
--
-- Jobs with several lanes start after the others (start_several), but have their place in the line:
-- they take slots of the worker from those behind them, and if one with a limit finds none left,
-- nothing behind it starts (see take_slots).
--
-- Lanes of stopped jobs stay out of `used`, so tidy_up gives them back. Lanes that waited for a
-- retry wait for it again.
CREATE OR REPLACE FUNCTION pass_gates(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_left  integer := r.slots - (r.asked - r.wanted);   -- of the worker's slots
    v_line  bigint[];   -- these jobs and those with several lanes, the best first
    v_end   integer;    -- the place there of the first job that lacks a slot
    v_slots record;     -- the answer of take_slots
BEGIN
    IF NOT r.limited AND NOT EXISTS (
        SELECT FROM jobs WHERE id = ANY (r.ids) AND task IN (SELECT unnest(r.paused))
    ) THEN
        RETURN;   -- none of them has a gate
    END IF;
    IF r.limited AND cardinality(r.several) > 0 THEN
        SELECT array_agg(id ORDER BY place), min(place) FILTER (WHERE begins AND place > v_left)
        INTO v_line, v_end
        FROM (
            SELECT id, locks IS NOT NULL AND limit_key IS NOT NULL AS begins,
                row_number() OVER (ORDER BY priority DESC, id) AS place
            FROM jobs WHERE id = ANY (r.ids || r.several)
        ) AS job;
        r.ids := ARRAY(SELECT unnest(r.ids)
            INTERSECT SELECT unnest(v_line[:coalesce(v_end - 1, cardinality(v_line))]));
        v_left := cardinality(ARRAY(
            SELECT unnest(r.ids) INTERSECT SELECT unnest(v_line[:v_left])));
    END IF;
    SELECT * INTO v_slots FROM take_slots(r.ids, v_left, r.paused,
        r.holds_none AND r.wanted = r.asked AND v_line IS NULL);
    r.holds_none := false;
    r.marked := v_slots.closed <> '{}';
    IF r.marked AND v_slots.ids = '{}' AND r.since IS NULL THEN
        r.lanes_left := r.lanes_left - clear_front(r, v_slots.closed);
    END IF;
    r.ids := v_slots.ids;
    r.ahead := v_slots.ahead;
    v_end := least(v_end, array_position(v_line, v_slots.lacking));
    IF v_end IS NOT NULL OR v_slots.lacking IS NOT NULL THEN
        r.several := ARRAY(SELECT id FROM unnest(v_line[:v_end - 1]) AS id
            WHERE id IN (SELECT unnest(r.several)));
        r.wanted := cardinality(r.ids) + cardinality(r.several);   -- nothing behind it starts
        PERFORM set_config('inturn.lacking', 'true', true);   -- tells the worker
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
