-- Returns whether nothing would ever wake this lane. Either jobs are `blocked` although no worker
-- holds the lane and no job is a token, or the lane waits for a job that does not exist or counts
-- readers that do not, or its line does not fit the jobs (line_is_wrong). One statement with one
-- snapshot, so a change of a lane is seen as a whole or not at all.
--
-- A head with several lanes may sleep because of another lane, which wakes it: that lane has a row,
-- or another job goes first there.
CREATE OR REPLACE FUNCTION lane_is_stranded(p_lock text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT line_is_wrong(p_lock) OR CASE
        WHEN lane.readers IS NOT NULL THEN lane.readers IS DISTINCT FROM count_readers(p_lock)
            OR (lane.stopped IS NULL AND lane.look_at IS NULL AND EXISTS (
                SELECT FROM lane_heads(ARRAY[p_lock]) AS head JOIN jobs USING (id)
                WHERE head.asleep AND p_lock = ANY (jobs.shared)
                    AND may_start_next(jobs, p_lock)))
        WHEN lane.stopped IS NOT NULL AND lane.worker_id IS NULL THEN false
        WHEN lane.look_at IS NOT NULL THEN false   -- resume_lanes handles it
        WHEN lane.worker_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM jobs WHERE status = 'doing' AND worker_id = lane.worker_id
                AND (jobs.lock = p_lock OR p_lock = ANY (jobs.locks))
        )
        WHEN lane.job_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM jobs WHERE id = lane.job_id AND (lock = p_lock OR p_lock = ANY (locks))
                AND (status IN ('todo', 'scheduled', 'limited', 'paused')
                    OR status = 'blocked' AND keeps_lanes)
        )
        -- A head that waits at a gate is woken by open_gates.
        ELSE EXISTS (
            SELECT FROM lane_heads(ARRAY[p_lock]) AS head JOIN jobs USING (id)
            WHERE head.asleep AND (jobs.locks IS NULL OR may_start_next(jobs, p_lock))
        ) AND NOT EXISTS (
            SELECT FROM jobs WHERE lock = p_lock
                AND status IN ('todo', 'blocked', 'limited', 'paused')
                AND lock IS NOT NULL AND keeps_lanes IS NULL AND status = 'todo' AND locks IS NULL
        )
    END
    FROM (SELECT p_lock AS lock) AS asked LEFT JOIN lanes AS lane ON lane.lock = asked.lock
$$;
