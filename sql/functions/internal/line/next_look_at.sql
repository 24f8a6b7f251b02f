-- Returns when to look again at a lane whose next job has been locked since p_since: after 20 ms,
-- then twice as late each time, up to a second.
CREATE OR REPLACE FUNCTION next_look_at(p_since timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT clock() + least(greatest(clock() - p_since, interval '20 ms'), interval '1 s')
$$;
