-- Returns the histogram bin of a duration, or NULL if it has no beginning or no end. Bin 1 is up to
-- a millisecond, and each further bin ends at 1.41 times (the square root of two) the end of the
-- one before it. Bin 64, the last one, begins at about three weeks.
--
-- One expression and STABLE, as `extract` is, so that the planner inlines it.
CREATE OR REPLACE FUNCTION duration_bin(p_from timestamptz, p_to timestamptz) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_from IS NOT NULL AND p_to IS NOT NULL THEN
        least(64, 1 + ceil(2 * ln(greatest(1, 1000 * (
            extract(epoch FROM p_to)::float8 - extract(epoch FROM p_from)::float8
        ))) / ln(2.0::float8)))::integer END
$$;
