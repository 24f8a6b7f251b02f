-- Returns how many jobs of a key may start now, or NULL for any number. Negative: so many run too
-- many, since somebody has lowered the limit. It adds the tokens that have come since the last
-- call. The caller has locked the key, and a new statement reads the limit: set_limit locks the
-- keys too, and has committed.
CREATE OR REPLACE FUNCTION fold_key(p_key text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_limit  limits := find_limit(p_key);
    v_now    timestamptz := clock();
    v_key    limit_keys;
    v_tokens double precision;
BEGIN
    SELECT * INTO v_key FROM limit_keys WHERE key = p_key;
    IF v_limit.rate IS NULL THEN
        IF v_key.tokens IS NOT NULL THEN
            UPDATE limit_keys SET tokens = NULL, refilled_at = NULL, look_at = NULL
            WHERE key = p_key;
        END IF;
        RETURN v_limit.slots - v_key.used;
    END IF;
    -- Another statement may have begun later and come here first. A clock that was set back is
    -- something else.
    IF v_key.refilled_at BETWEEN v_now AND v_now + interval '1 minute' THEN
        v_now := v_key.refilled_at;
    END IF;
    v_tokens := least(v_limit.burst, coalesce(
        v_key.tokens + v_limit.rate
            * greatest(extract(epoch FROM v_now - v_key.refilled_at), 0)::double precision
            / extract(epoch FROM v_limit.period)::double precision,
        v_limit.burst));
    UPDATE limit_keys SET tokens = v_tokens, refilled_at = v_now WHERE key = p_key;
    RETURN least(v_limit.slots - v_key.used, floor(v_tokens)::integer);
END $$;
