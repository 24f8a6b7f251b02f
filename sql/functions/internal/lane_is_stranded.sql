-- Returns whether nobody would ever wake this lane. Either jobs wait `blocked`, but nobody holds
-- the lane and no job is a token. Or the lane waits for a job that does not exist. It is one
-- statement with one snapshot, so a change of a lane is seen as a whole or not at all.
CREATE OR REPLACE FUNCTION lane_is_stranded(p_lock text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN lane.stopped IS NOT NULL AND lane.worker_id IS NULL THEN false
        WHEN lane.look_at IS NOT NULL THEN false   -- resume_due looks after it
        WHEN lane.worker_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM jobs WHERE status = 'doing' AND worker_id = lane.worker_id
                AND jobs.lock = p_lock
        )
        WHEN lane.job_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM jobs WHERE id = lane.job_id AND lock = p_lock
                AND (status IN ('todo', 'scheduled') OR status = 'limited')
        )
        ELSE EXISTS (
            SELECT FROM jobs WHERE lock = p_lock AND status IN ('todo', 'blocked', 'limited')
                AND lock IS NOT NULL AND keeps_lanes IS NULL
        ) AND NOT EXISTS (
            SELECT FROM jobs WHERE lock = p_lock AND status IN ('todo', 'blocked', 'limited')
                AND lock IS NOT NULL AND keeps_lanes IS NULL AND status = 'todo'
        )
        -- The key of a limited head wakes it.
        AND (SELECT jobs.status FROM lane_heads(ARRAY[p_lock]) AS head JOIN jobs USING (id))
            <> 'limited'
    END
    FROM (SELECT p_lock AS lock) AS asked LEFT JOIN lanes AS lane ON lane.lock = asked.lock
$$;
