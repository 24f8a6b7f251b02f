-- Lets this session begin at floors for some time after a look at the fronts that read much: ten
-- times as long as it took, at most five seconds. p_read is what entries_read() returned before it.
CREATE OR REPLACE FUNCTION leave_front(p_read bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    -- Each entry takes about a microsecond.
    SELECT set_config('inturn.front_at', (clock()
        + least((entries_read() - p_read) * interval '10 us', interval '5 s'))::text, false)
$$;
