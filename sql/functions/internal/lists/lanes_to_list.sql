-- Returns the lanes in these states from which lists and counts choose: those stopped first and
-- those due to be looked at next, at most p_limit and 10,000 of each, those of the first 10,000
-- running jobs, the first 10,000 by name, and idle ones.
CREATE OR REPLACE FUNCTION lanes_to_list(p_limit integer, p_states text[])
    RETURNS TABLE (lock text, stopped lane_state, since timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT lock, stopped, since FROM (
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
        (SELECT * FROM lanes WHERE state IS NOT NULL ORDER BY lock LIMIT 10000)
    ) AS known
    WHERE p_states IS NULL OR known.state = ANY (p_states::lane_state[])
    UNION ALL
    SELECT lock, NULL, since FROM idle_lanes WHERE p_states IS NULL OR 'idle' = ANY (p_states)
$$;
