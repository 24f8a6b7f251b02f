-- Records how far a pass over a day has come (see roll_up). At its end, schedules the next pass:
-- after a minute, or later if it read a lot or the day is over. Once no transaction is left that
-- was open a day after the day's end, the day is closed and has no further pass.
CREATE OR REPLACE FUNCTION note_pass(p_pass rollup_days) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_over   interval := p_pass.begun_at - (p_pass.day + 1)::timestamptz;
    v_closed boolean := coalesce(p_pass.counting_below >= p_pass.closing_below, false);
BEGIN
    UPDATE rollup_days
    SET begun_at = p_pass.begun_at, pages = p_pass.pages, next_page = p_pass.next_page,
        counting_below = p_pass.counting_below, closing_below = p_pass.closing_below
    WHERE day = p_pass.day;
    IF p_pass.next_page < p_pass.pages THEN
        RETURN;
    END IF;
    UPDATE rollup_days
    SET counted_below = counting_below, counted_at = begun_at, counting_below = NULL,
        due_at = CASE WHEN NOT v_closed THEN begun_at + greatest(
            interval '1 minute', pages * interval '1 ms',
            CASE WHEN v_over < interval '1 day' THEN
                least(v_over, interval '1 day' - v_over) END) END
    WHERE day = p_pass.day;
    DELETE FROM uncounted_ends
    WHERE day = p_pass.day AND (xact < p_pass.counting_below OR v_closed);
END $$;
