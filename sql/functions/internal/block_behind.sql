-- Sets jobs `blocked` that a claim saw in front and could not start because their lane is held.
-- The next claim then does not meet them again. Returns the number of blocked jobs, or NULL if
-- another claim of the same queues is doing this: the jobs are then met again. Two claims that
-- block the same jobs would both look through all of them, and keep finishes in those lanes
-- waiting twice.
--
-- Only a caller that holds a lane's row may block its jobs. The lane's holder must take the same
-- lock before it looks for the next job. So it either sees the job that we blocked, or it makes
-- us find the lane free. Without this lock, both sides could conclude that the other one will
-- wake the job, and the job would sleep for ever. The call never waits (SKIP LOCKED). A skipped
-- job stays `todo` and is met again.
CREATE OR REPLACE FUNCTION block_behind(p_queues text[], p_ids bigint[], p_locks text[])
    RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_result bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(
        concat_ws(' ', 'inturn block_behind', current_schema(), p_queues::text), 0)) THEN
        RETURN NULL;
    END IF;

    WITH held AS MATERIALIZED (
        SELECT seen.id
        FROM unnest(p_ids, p_locks) AS seen(id, lock)
        CROSS JOIN LATERAL (
            SELECT FROM lanes
            -- The job that a retrying lane waits for stays its token. A stopped lane needs no
            -- token: resume_lane makes one.
            WHERE lanes.lock = seen.lock
              AND (lanes.job_id IS DISTINCT FROM seen.id OR lanes.stopped IS NOT NULL)
            LIMIT 1
            FOR UPDATE OF lanes SKIP LOCKED
        ) AS lane
    ), touched AS MATERIALIZED (
        -- An open transaction may have a job locked. We would wait for it, and the lane's holder
        -- for us.
        SELECT jobs.id FROM jobs
        WHERE jobs.id = ANY (ARRAY(SELECT held.id FROM held))
          AND is_touched(jobs.xmin, jobs.xmax)
        FOR UPDATE OF jobs SKIP LOCKED
    ), blocked AS (
        UPDATE jobs SET status = 'blocked'
        WHERE jobs.id = ANY (ARRAY(SELECT held.id FROM held)) AND jobs.status = 'todo'
          AND (NOT is_touched(jobs.xmin, jobs.xmax) OR jobs.id IN (SELECT id FROM touched))
        RETURNING 1
    )
    SELECT count(*) INTO v_result FROM blocked;
    RETURN v_result;
END $$;
