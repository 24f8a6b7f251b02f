-- Sets jobs `blocked` that a claim found in front but could not start because their lane is held,
-- so the next claim does not meet them again. Returns the number of blocked jobs, or NULL if
-- another claim of the same queues is already doing this; these jobs are then met again. Two claims
-- blocking the same jobs would both scan all of them, and delay finishes in those lanes twice.
--
-- Only a caller that holds a lane's row may block its jobs. The lane's holder must take the same
-- lock before it looks for the next job, so either it sees the job that we blocked, or we find the
-- lane free. Without this lock, each side could expect the other to wake the job, and it would
-- sleep for ever. Locked rows are skipped; the job stays `todo` and is met again.
CREATE OR REPLACE FUNCTION block_behind(p_queues text[], p_ids bigint[], p_locks text[])
    RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_lanes  text[];
    v_behind bigint[];
    v_result bigint;
    v_rest   bigint;
    v_gates  text[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(lock_key('block_behind', p_queues::text)) THEN
        RETURN NULL;
    END IF;

    -- Lock each lane once, however many of its jobs are in front. From here on, no job leaves these
    -- lanes.
    WITH held AS MATERIALIZED (
        SELECT lanes.lock, lanes.job_id, lanes.stopped FROM lanes
        WHERE lanes.lock = ANY (p_locks) AND lanes.state IS NOT NULL   -- a free lane wakes no job
        FOR UPDATE OF lanes SKIP LOCKED
    )
    SELECT array_agg(seen.id), ARRAY(SELECT held.lock FROM held) INTO v_behind, v_lanes
    FROM unnest(p_ids, p_locks) AS seen(id, lock)
    -- A plain IN could become a nested loop over both lists.
    WHERE coalesce(seen.lock IN (SELECT held.lock FROM held), false)
      -- The job that a retrying lane waits for stays its token. A stopped lane needs none:
      -- resume_lane makes one.
      AND seen.id NOT IN (
          SELECT held.job_id FROM held WHERE held.job_id IS NOT NULL AND held.stopped IS NULL);

    -- A job may have moved to another lane since it was seen, and may be the token there.
    UPDATE jobs SET status = 'blocked'
    WHERE jobs.id = ANY (v_behind) AND jobs.status = 'todo'
        AND coalesce(jobs.lock IN (SELECT unnest(v_lanes)), false)
        AND NOT is_touched(jobs.xmin, jobs.xmax) AND jobs.limit_key IS NULL;
    GET DIAGNOSTICS v_result = ROW_COUNT;
    IF v_result = cardinality(v_behind) THEN
        RETURN v_result;
    END IF;

    -- Skip rows that an open transaction has locked: we would wait for it, and the lane's holder
    -- for us. A job with a limit may have been woken for a slot, which must pass to the next one.
    WITH rest AS MATERIALIZED (
        SELECT jobs.id FROM jobs WHERE jobs.id = ANY (v_behind) AND jobs.status = 'todo'
            AND coalesce(jobs.lock IN (SELECT unnest(v_lanes)), false)
        FOR UPDATE OF jobs SKIP LOCKED
    ), blocked AS (
        UPDATE jobs SET status = 'blocked' WHERE jobs.id = ANY (ARRAY(SELECT rest.id FROM rest))
        RETURNING limit_gate(jobs.limit_key) AS gate
    )
    SELECT count(*), array_agg(DISTINCT gate) FILTER (WHERE gate IS NOT NULL)
    INTO v_rest, v_gates FROM blocked;
    PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;
    RETURN v_result + v_rest;
END $$;
