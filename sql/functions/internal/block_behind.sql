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
    v_behind bigint[];
    v_result bigint;
    v_rest   bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(
        concat_ws(' ', 'inturn block_behind', current_schema(), p_queues::text), 0)) THEN
        RETURN NULL;
    END IF;

    -- Each lane is locked once, however many of its jobs are in front.
    WITH held AS MATERIALIZED (
        SELECT lanes.lock, lanes.job_id, lanes.stopped FROM lanes
        WHERE lanes.lock = ANY (p_locks)
        FOR UPDATE OF lanes SKIP LOCKED
    )
    SELECT array_agg(seen.id) INTO v_behind
    FROM unnest(p_ids, p_locks) AS seen(id, lock)
    WHERE seen.lock NOT IN (SELECT unnest(p_locks) EXCEPT SELECT held.lock FROM held)
      -- The job that a retrying lane waits for stays its token. A stopped lane needs no token:
      -- resume_lane makes one.
      AND seen.id NOT IN (
          SELECT held.job_id FROM held WHERE held.job_id IS NOT NULL AND held.stopped IS NULL);

    UPDATE jobs SET status = 'blocked'
    WHERE jobs.id = ANY (v_behind) AND jobs.status = 'todo'
        AND NOT is_touched(jobs.xmin, jobs.xmax);
    GET DIAGNOSTICS v_result = ROW_COUNT;
    IF v_result = cardinality(v_behind) THEN
        RETURN v_result;
    END IF;

    -- An open transaction may have the rest locked. We would wait for it, and the lane's holder
    -- for us.
    WITH rest AS MATERIALIZED (
        SELECT jobs.id FROM jobs WHERE jobs.id = ANY (v_behind) AND jobs.status = 'todo'
        FOR UPDATE OF jobs SKIP LOCKED
    )
    UPDATE jobs SET status = 'blocked' WHERE jobs.id = ANY (ARRAY(SELECT rest.id FROM rest));
    GET DIAGNOSTICS v_rest = ROW_COUNT;
    RETURN v_result + v_rest;
END $$;
