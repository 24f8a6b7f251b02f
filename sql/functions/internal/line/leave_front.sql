-- Lets this session begin at floors for some time if a look at the fronts of as many lanes has read
-- much: ten times as long as it took, at most five seconds. p_read is what entries_read() returned
-- before it. An open snapshot keeps the entries of what has run at the front.
CREATE OR REPLACE FUNCTION leave_front(p_read bigint, p_lanes integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_read bigint := entries_read() - p_read;   -- each takes about a microsecond
BEGIN
    IF v_read > 50 * p_lanes THEN
        PERFORM set_config('inturn.front_at',
            (clock() + least(v_read * interval '10 us', interval '5 s'))::text, false);
    END IF;
END $$;
