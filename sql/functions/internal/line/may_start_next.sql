-- Returns whether a job that has `locks` needs only a claim to start: it is the head of all of its
-- lanes, and no lane except perhaps p_lock is held against it. The caller has checked p_lock, and
-- may have made a row for it.
CREATE OR REPLACE FUNCTION may_start_next(p_job jobs, p_lock text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT closed_lane(p_job.id, array_remove(p_job.locks, p_lock), p_job.shared) IS NULL
        AND NOT EXISTS (
            SELECT FROM lane_heads(p_job.locks) AS head WHERE head.id <> p_job.id)
$$;
