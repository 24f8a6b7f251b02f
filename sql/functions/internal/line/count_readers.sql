-- Counts the jobs that share a lane, judging by the jobs themselves: those that run, and those that
-- keep their share for their retry. Returns NULL if there are none.
CREATE OR REPLACE FUNCTION count_readers(p_lock text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT nullif(
        (SELECT count(*) FROM jobs WHERE status = 'doing' AND p_lock = ANY (shared))
        + (SELECT count(*) FROM jobs WHERE keeps_lanes AND p_lock = ANY (shared)), 0)
$$;
