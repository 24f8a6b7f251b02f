-- Returns what a key allows now under its limit (NULL: none). It writes nothing.
--   free     how many of its jobs may start, or NULL for any number. Negative: so many run too
--            many, since somebody has lowered the limit.
--   tokens   those of its rate, as of refilled_at, with the ones that have come by now
--   next_at  when the next token comes, or NULL if none would help
-- If you act on the answer, lock the key first, and call this in a later statement.
CREATE OR REPLACE FUNCTION fold_key(p_key limit_keys, p_limit limits, OUT free integer,
    OUT tokens double precision, OUT refilled_at timestamptz, OUT next_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_now  timestamptz := clock();
    v_pace double precision;   -- the seconds between two tokens
BEGIN
    free := p_limit.slots - p_key.used;
    IF p_limit.rate IS NULL THEN
        RETURN;
    END IF;
    -- This statement may have begun, and waited, before others came here first. If the clock was
    -- set back, the last time lies even behind the server's present. By more than some seconds, no
    -- key waits until it has caught up.
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
