-- Returns which lanes a bulk would change. Counts stop at p_limit.
--   lanes_count  how many lanes match
--   more         more than p_limit match, and the numbers are those of the first p_limit
--   halted, paused, retrying, held  how many are in this state. held: a job runs, whatever else
--   waiting      jobs that wait in these lanes, up to p_limit
--   sample       the first 20 of the lanes
CREATE OR REPLACE FUNCTION preview_lanes(
    p_states text[],
    p_prefix text,
    p_limit  integer,
    p_error  text DEFAULT NULL,
    OUT lanes_count bigint, OUT more boolean, OUT halted bigint, OUT paused bigint,
    OUT retrying bigint, OUT held bigint, OUT waiting bigint, OUT sample text[]
)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_locks text[] := ARRAY(SELECT find_lanes(p_states, p_prefix, p_limit + 1, p_error => p_error));
BEGIN
    more := cardinality(v_locks) > p_limit;
    v_locks := v_locks[:p_limit];
    lanes_count := cardinality(v_locks);
    sample := v_locks[:20];
    SELECT count(*) FILTER (WHERE stop.stopped = 'halted'),
        count(*) FILTER (WHERE stop.stopped = 'paused'),
        count(*) FILTER (WHERE stop.state = 'retrying'),
        count(*) FILTER (WHERE stop.state = 'held')
    INTO halted, paused, retrying, held
    FROM unnest(v_locks) AS mine(lock)
    CROSS JOIN LATERAL (
        SELECT stopped, state FROM lanes AS lane WHERE lane.lock = mine.lock LIMIT 1
    ) AS stop;
    SELECT count(*) INTO waiting FROM (
        SELECT FROM unnest(v_locks) AS mine(lock)
        CROSS JOIN LATERAL line_of(mine.lock, p_limit) AS behind
        LIMIT p_limit
    ) AS counted;
END $$;
