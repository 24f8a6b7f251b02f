-- Returns the locks of the lanes that a bulk selects, at most p_limit, those after p_after.
-- p_states are the states of lane_status. A lane that is stopped while one of its jobs still runs
-- counts as stopped. Without p_states, lanes in which jobs wait count too, even if no worker holds
-- them. p_error is a part of the error of the job that the lane waits for (see lane_fails_with).
CREATE OR REPLACE FUNCTION find_lanes(
    p_states text[],
    p_prefix text,
    p_limit  integer,
    p_after  text DEFAULT '',
    p_error  text DEFAULT NULL
) RETURNS SETOF text
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan
SET jit = off
AS $$
DECLARE
    v_from text := greatest(p_after COLLATE "C", coalesce(p_prefix, ''));
BEGIN
    RETURN QUERY
    WITH RECURSIVE line(lock) AS (
        (SELECT jobs.lock::text FROM jobs
         WHERE p_states IS NULL AND p_error IS NULL
             AND status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND keeps_lanes IS NULL AND jobs.lock >= v_from
         ORDER BY jobs.lock LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.lock FROM jobs
                WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND jobs.lock IS NOT NULL
                    AND keeps_lanes IS NULL AND jobs.lock > line.lock
                ORDER BY jobs.lock LIMIT 1)
        FROM line
        WHERE line.lock IS NOT NULL AND starts_with(line.lock, coalesce(p_prefix, ''))
    ), other(lock) AS (
        (SELECT waits.lock::text FROM waits
         WHERE p_states IS NULL AND p_error IS NULL AND waits.lock >= v_from
         ORDER BY waits.lock LIMIT 1)
        UNION ALL
        SELECT (SELECT waits.lock FROM waits WHERE waits.lock > other.lock
                ORDER BY waits.lock LIMIT 1)
        FROM other
        WHERE other.lock IS NOT NULL AND starts_with(other.lock, coalesce(p_prefix, ''))
    )
    SELECT found.lock FROM (
        (SELECT lanes.lock FROM lanes
         WHERE lanes.lock >= v_from AND lanes.state IS NOT NULL AND (p_states IS NULL
             OR lanes.state = ANY (p_states::lane_state[])
             OR lanes.stopped = ANY (p_states::lane_state[]))
         ORDER BY lanes.lock
         LIMIT CASE WHEN p_states IS NULL AND p_error IS NULL THEN p_limit + 1 END)
        UNION
        SELECT idle_lanes.lock FROM idle_lanes WHERE 'idle' = ANY (p_states)
        UNION
        (SELECT line.lock FROM line WHERE line.lock IS NOT NULL LIMIT p_limit + 1)
        UNION
        (SELECT other.lock FROM other WHERE other.lock IS NOT NULL LIMIT p_limit + 1)
    ) AS found
    WHERE (p_error IS NULL OR lane_fails_with(found.lock, p_error))
        AND found.lock > p_after COLLATE "C" AND starts_with(found.lock, coalesce(p_prefix, ''))
    ORDER BY found.lock COLLATE "C"
    LIMIT p_limit;
END $$;
