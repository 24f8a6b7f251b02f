-- Lets this session begin at floors for some time after a look at the fronts that read much: ten
-- times as long as it took, but at least a quarter of a second and at most five. p_read is what
-- entries_read() returned before it.
CREATE OR REPLACE FUNCTION leave_front(p_read bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    -- Each entry takes about a microsecond. With a shorter pause, the rows of free lanes would be
    -- deleted almost as soon as they were kept (release_lanes).
    SELECT set_config('inturn.front_at', (clock() + greatest(interval '250 ms',
        least((entries_read() - p_read) * interval '10 us', interval '5 s')))::text, false)
$$;
