-- change_limit: sets the parts of a limit that you give, and keeps the others. p_without names
-- parts to take away: 'concurrency', or 'rate' together with its burst. If the pattern has no
-- limit, it gets one. Returns the limit as it was, if there was one, and then as it is.
--
-- Two calls at once both take effect, since the second one waits for the first. Like set_limit, it
-- locks no key, so an open transaction keeps no job waiting.
CREATE OR REPLACE FUNCTION change_limit(
    p_pattern text,
    p_slots   integer  DEFAULT NULL,
    p_rate    integer  DEFAULT NULL,
    p_period  interval DEFAULT NULL,
    p_burst   integer  DEFAULT NULL,
    p_without text[]   DEFAULT '{}',
    p_by      text     DEFAULT NULL
) RETURNS SETOF limits
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_old limits;
    v_new limits;
BEGIN
    IF p_without IS NULL OR NOT p_without <@ '{concurrency,rate}'
        OR p_slots IS NOT NULL AND 'concurrency' = ANY (p_without)
        OR num_nonnulls(p_rate, p_period, p_burst) > 0 AND 'rate' = ANY (p_without) THEN
        RAISE EXCEPTION 'without: name concurrency or rate, and give no value for it'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM require_read_committed();
    -- Only those who change limits wait. A row could not be locked if there is none yet.
    LOCK TABLE limits IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO v_old FROM limits WHERE pattern = p_pattern;
    v_new := v_old;
    IF 'concurrency' = ANY (p_without) THEN
        v_new.slots := NULL;
    END IF;
    IF 'rate' = ANY (p_without) THEN
        v_new.rate := NULL;
        v_new.period := NULL;
        v_new.burst := NULL;
    END IF;
    PERFORM set_limit(p_pattern, coalesce(p_slots, v_new.slots), coalesce(p_rate, v_new.rate),
        CASE WHEN p_rate IS NULL THEN coalesce(p_period, v_new.period) ELSE p_period END,
        coalesce(p_burst, v_new.burst), p_by);
    IF v_old.pattern IS NOT NULL THEN
        RETURN NEXT v_old;
    END IF;
    RETURN QUERY SELECT * FROM limits WHERE pattern = p_pattern;
END $$;
