-- Sets jobs `blocked` that a claim saw in front and could not start because their lane is held, so that the next claim
-- does not meet them again. Returns how many.
--
-- Only while holding that lane's row: its holder must take the same lock before it looks for the next job, so it either sees
-- the job that we blocked or makes us find the lane free. Without the lock both can conclude that the other will wake it,
-- and the job sleeps for ever. Never waits (SKIP LOCKED): what is skipped stays `todo` and is met again.
CREATE OR REPLACE FUNCTION block_seen(p_seen bigint[], p_locks text[]) RETURNS bigint
LANGUAGE sql AS $$
    WITH held AS MATERIALIZED (
        SELECT lanes.lock, lanes.job_id, lanes.stopped FROM lanes WHERE lanes.lock = ANY (p_locks) FOR UPDATE SKIP LOCKED
    ), blocked AS (
        UPDATE jobs SET status = 'blocked'
        FROM unnest(p_seen) AS seen(id), held
        WHERE jobs.id = seen.id AND jobs.status = 'todo' AND jobs.lock = held.lock
          -- The job that a retrying lane waits for stays its token. A stopped lane needs none: resume makes one.
          AND (jobs.id IS DISTINCT FROM held.job_id OR held.stopped IS NOT NULL)
        RETURNING 1
    )
    SELECT count(*) FROM blocked
$$;
