-- Returns whether a job that has `locks` only lacks a claim to start: it is the head of all of its
-- lanes, and none of them is held against it.
CREATE OR REPLACE FUNCTION may_start_next(p_job jobs) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT closed_lane(p_job.id, p_job.locks, p_job.shared) IS NULL AND NOT EXISTS (
        SELECT FROM lane_heads(p_job.locks) AS head WHERE head.id <> p_job.id)
$$;
