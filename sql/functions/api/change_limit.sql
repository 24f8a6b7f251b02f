-- change_limit: sets the given parts of a limit, and keeps the others. p_without names parts to
-- remove: 'concurrency', or 'rate' together with its burst. If the pattern has no limit, it gets
-- one. Returns the limit before the change, if there was one, and then the new limit.
--
-- Of two concurrent calls, the second waits for the first, so both take effect. Like set_limit, it
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
LANGUAGE plpgsql AS $$
DECLARE
    v_old        limits;
    v_keeps_rate boolean;
BEGIN
    IF p_without IS NULL OR NOT p_without <@ '{concurrency,rate}'
        OR p_slots IS NOT NULL AND 'concurrency' = ANY (p_without)
        OR num_nonnulls(p_rate, p_period, p_burst) > 0 AND 'rate' = ANY (p_without) THEN
        RAISE EXCEPTION 'without: name concurrency or rate, and give no value for it'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM require_settings();
    -- Only changes of limits wait for this. A row lock would not do: there may be no row yet.
    LOCK TABLE limits IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO v_old FROM limits WHERE pattern = p_pattern;
    v_keeps_rate := 'rate' <> ALL (p_without);
    PERFORM set_limit(p_pattern,
        CASE WHEN 'concurrency' <> ALL (p_without) THEN coalesce(p_slots, v_old.slots) END,
        CASE WHEN v_keeps_rate THEN coalesce(p_rate, v_old.rate) END,
        CASE WHEN v_keeps_rate AND p_rate IS NULL THEN coalesce(p_period, v_old.period)
             ELSE p_period END,
        CASE WHEN v_keeps_rate THEN coalesce(p_burst, v_old.burst) END, p_by);
    IF v_old.pattern IS NOT NULL THEN
        RETURN NEXT v_old;
    END IF;
    RETURN QUERY SELECT * FROM limits WHERE pattern = p_pattern;
END $$;
