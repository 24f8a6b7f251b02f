-- Returns the first fence of a timeline, above the given fence. A fence has 7 bits for the
-- generation, 16 for the timeline on which it was given, and 40 for a counter. If the timeline is
-- not a later one, a new generation begins.
CREATE OR REPLACE FUNCTION next_epoch(p_fence bigint, p_timeline bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_fence >> 56 << 56) + (p_timeline << 40)
           + CASE WHEN p_timeline > (p_fence >> 40) & 65535 THEN 0 ELSE 1::bigint << 56 END
$$;
