-- Returns the lanes from which lists and counts choose: those stopped first and those due to be
-- looked at next, at most p_limit and 10,000 of each, those of the first 10,000 running jobs, and
-- the first 10,000 by name.
CREATE OR REPLACE FUNCTION lanes_to_list(p_limit integer) RETURNS SETOF lanes
LANGUAGE sql STABLE AS $$
    (SELECT * FROM lanes WHERE stopped = 'halted' ORDER BY stopped_at LIMIT p_limit)
    UNION
    (SELECT * FROM lanes WHERE stopped = 'paused' ORDER BY stopped_at LIMIT p_limit)
    UNION
    (SELECT * FROM lanes WHERE coalesce(look_at, stopped_until) IS NOT NULL
     ORDER BY coalesce(look_at, stopped_until) LIMIT 10000)
    UNION
    (SELECT * FROM lanes WHERE lock = ANY (ARRAY(
        SELECT lock FROM jobs WHERE status = 'doing' ORDER BY worker_id LIMIT 10000)))
    UNION
    (SELECT * FROM lanes ORDER BY lock LIMIT 10000)
$$;
