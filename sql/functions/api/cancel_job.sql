-- cancel_job: a job that is not running moves to the history. Its lane keeps a token. With
-- p_abort, a running job is asked to end, and its worker sees to it.
--
-- Returns the job's status after the call: `cancelled`, `doing`, the status it finished with, or
-- NULL if there is no such job.
--
-- Lock order: the lane, then the job, then the history.
CREATE OR REPLACE FUNCTION cancel_job(p_id bigint, p_abort boolean DEFAULT false) RETURNS job_status
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    -- The job, if it is live. A finished one may be restored meanwhile, in a lane we do not hold.
    v_ids    bigint[];
    v_lock   text;
    v_status job_status;
BEGIN
    -- Read the history only after archive_jobs has locked it for writing: prepare_history waits
    -- for readers and keeps writers out.
    LOOP
        SELECT array_agg(id), max(lock) INTO v_ids, v_lock FROM jobs WHERE id = p_id;
        IF v_lock IS NOT NULL THEN
            PERFORM lock_lane(v_lock);
        END IF;
        -- A retry may have moved the job before we had this lane. From here on it stays.
        PERFORM FROM jobs WHERE id = p_id AND lock IS NOT DISTINCT FROM v_lock FOR UPDATE;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT FROM jobs WHERE id = p_id);
        PERFORM reopen_lane(v_lock) WHERE v_lock IS NOT NULL;
    END LOOP;
    SELECT status INTO v_status
    FROM archive_jobs(v_ids, NULL, ARRAY['cancelled'::job_status], NULL);
    IF v_lock IS NOT NULL THEN
        UPDATE lanes SET job_id = NULL
        WHERE lock = v_lock AND job_id = p_id AND v_status IS NOT NULL;
        PERFORM reopen_lane(v_lock);
    END IF;
    IF v_status IS NULL AND p_abort THEN
        UPDATE jobs SET abort = true WHERE id = p_id AND status = 'doing';
        PERFORM pg_notify(current_schema(), '!') WHERE FOUND;
    END IF;
    RETURN coalesce(
        v_status,
        (SELECT status FROM jobs WHERE id = p_id),
        (SELECT status FROM finished_jobs WHERE id = p_id ORDER BY finished_at DESC LIMIT 1)
    );
END $$;
