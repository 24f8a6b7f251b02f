-- set_limit: sets how many jobs of a key may run at once (p_slots), and how often one may start
-- (p_rate in each p_period, and p_burst at once after a quiet time). A pattern that ends with `*`
-- applies to every key with this prefix, each by itself. It replaces an earlier limit of the same
-- pattern, and takes effect at commit. A lower limit ends no running job.
--
-- It locks no key, so an open transaction keeps no job waiting. A claim that is under way at commit
-- may follow the earlier limit.
CREATE OR REPLACE FUNCTION set_limit(
    p_pattern text,
    p_slots   integer  DEFAULT NULL,
    p_rate    integer  DEFAULT NULL,
    p_period  interval DEFAULT NULL,
    p_burst   integer  DEFAULT NULL,
    p_by      text     DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_problem text := CASE
        WHEN (octet_length(p_pattern) BETWEEN 1 AND 1024
            AND strpos(p_pattern, '*') IN (0, length(p_pattern))) IS NOT TRUE
            THEN 'pattern: give a key, or the beginning of keys with a * at its end'
        WHEN p_slots IS NULL AND p_rate IS NULL
            THEN 'concurrency: give how many jobs may run at once, or a rate, or both'
        WHEN p_slots < 1
            THEN 'concurrency: give a whole number of at least 1'
        WHEN p_rate < 1
            THEN 'rate: give a whole number of at least 1'
        WHEN p_rate IS NOT NULL
            AND (p_period BETWEEN interval '1 ms' AND interval '365 days') IS NOT TRUE
            THEN 'rate: give its period, from a millisecond to 365 days'
        WHEN p_rate IS NULL AND (p_period IS NOT NULL OR p_burst IS NOT NULL)
            THEN 'burst: give it together with a rate'
        WHEN p_burst < 1
            THEN 'burst: give a whole number of at least 1'
        END;
BEGIN
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION '%', v_problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM require_settings();
    INSERT INTO limits (pattern, slots, rate, period, burst)
    VALUES (p_pattern, p_slots, p_rate, p_period,
        CASE WHEN p_rate IS NOT NULL THEN coalesce(p_burst, 1) END)
    ON CONFLICT (pattern) DO UPDATE
    SET slots = excluded.slots, rate = excluded.rate, period = excluded.period,
        burst = excluded.burst;
    PERFORM leave_looks(gates_of(p_pattern));
    PERFORM audit('set-limit', p_pattern, 0, p_by, concat_ws(', ', p_slots || ' at once',
        p_rate || ' in ' || p_period || ', burst ' || coalesce(p_burst, 1)));
END $$;
