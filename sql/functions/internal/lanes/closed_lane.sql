-- Returns a lane that keeps this job from starting, judging by the lane's current row, or NULL. The
-- rows are read without locks. A lane is closed unless it is free, it waits for the job, or the job
-- can share it with its holders.
CREATE OR REPLACE FUNCTION closed_lane(p_id bigint, p_locks text[], p_shared text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT lanes.lock FROM lanes
    WHERE lanes.lock = ANY (p_locks) AND NOT lets_start(lanes, p_id, p_shared)
    ORDER BY lanes.lock LIMIT 1
$$;
