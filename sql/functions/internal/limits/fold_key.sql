-- Returns what a key currently allows under its limit (NULL: none). Writes nothing.
--   free     how many of its jobs may start, or NULL for any number. Negative if too many run,
--            because the limit was lowered.
--   tokens   the tokens of its rate at refilled_at, including new ones
--   next_at  when the next token comes, or NULL if none would help
-- Before you act on the answer, lock the key and call this in a later statement.
CREATE OR REPLACE FUNCTION fold_key(p_key gates, p_limit limits, OUT free integer,
    OUT tokens double precision, OUT refilled_at timestamptz, OUT next_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now  timestamptz := clock();
    v_pace double precision;   -- seconds between two tokens
BEGIN
    free := p_limit.slots - p_key.used;
    IF p_limit.rate IS NULL THEN
        RETURN;
    END IF;
    -- This statement may have begun, and waited, before others were here. If the clock was set
    -- back, the last time can even be ahead of the server's present. If it is ahead by more than
    -- some seconds, no key waits for the clock to catch up.
    refilled_at := v_now;
    IF p_key.refilled_at BETWEEN v_now AND greatest(v_now, clock_timestamp()) + interval '5 s'
    THEN
        refilled_at := p_key.refilled_at;
    END IF;
    v_pace := extract(epoch FROM p_limit.period)::double precision / p_limit.rate;
    tokens := least(p_limit.burst, coalesce(
        p_key.tokens + greatest(extract(epoch FROM refilled_at - p_key.refilled_at), 0) / v_pace,
        p_limit.burst));
    IF free > 0 OR free IS NULL THEN
        next_at := refilled_at + interval '1 us'
            + (1 - tokens + floor(tokens)) * v_pace * interval '1 s';
    END IF;
    free := least(free, floor(tokens)::integer);
END $$;
