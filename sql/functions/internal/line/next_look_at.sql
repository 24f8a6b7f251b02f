-- Returns when to retry a lane whose next job has been locked since p_since: after 20 ms, then with
-- doubling delays of up to a second.
CREATE OR REPLACE FUNCTION next_look_at(p_since timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT clock() + least(greatest(clock() - p_since, interval '20 ms'), interval '1 s')
$$;
