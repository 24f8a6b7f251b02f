-- cancel_job: moves a job that is not running to the history. Its lanes keep a token. With p_abort,
-- a running job is marked for its worker to abort. With p_by, lane_audit records who did it.
--
-- Returns the job's status after the call: `cancelled`, `doing`, the status with which it ended, or
-- NULL if there is no such job.
--
-- Lock order: the lanes, then the job, then the history.
CREATE OR REPLACE FUNCTION cancel_job(
    p_id bigint, p_abort boolean DEFAULT false, p_by text DEFAULT NULL
) RETURNS job_status
LANGUAGE plpgsql AS $$
DECLARE
    -- The job, if it is live. A finished one may be restored at any time, in a lane we do not hold.
    v_ids    bigint[];
    v_locks  text[];
    v_lanes  job_lanes;
    v_kept   boolean;
    v_status job_status;
BEGIN
    -- Read the history only after archive_jobs has locked it for writing: prepare_history waits
    -- for readers and keeps writers out.
    LOOP
        SELECT ARRAY[id], lanes_of(lock, locks) INTO v_ids, v_locks FROM jobs WHERE id = p_id;
        PERFORM lock_lane(lane) FROM unnest(v_locks) AS lane;   -- in order
        -- A retry may have moved the job before we had this lane. From here on it stays.
        SELECT id, lanes_of(lock, locks), shared, keeps_lanes
        INTO v_lanes.id, v_lanes.locks, v_lanes.shared, v_kept
        FROM jobs WHERE id = p_id AND lanes_of(lock, locks) IS NOT DISTINCT FROM v_locks FOR UPDATE;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT FROM jobs WHERE id = p_id);
        PERFORM reopen_lane(lane) FROM unnest(v_locks) AS lane;
    END LOOP;
    SELECT status INTO v_status FROM archive_jobs(v_ids);
    IF v_status IS NOT NULL THEN
        PERFORM reopen_lanes(v_lanes, v_kept);
        IF p_by IS NOT NULL THEN
            PERFORM audit('cancel-job', v_locks[1], 1, p_by, NULL, p_id);
        END IF;
    ELSE
        PERFORM reopen_lane(lane) FROM unnest(v_locks) AS lane;
    END IF;
    IF v_status IS NULL AND p_abort THEN
        UPDATE jobs SET abort = true WHERE id = p_id AND status = 'doing';
        PERFORM pg_notify(current_schema(), '!') WHERE FOUND;
        IF FOUND AND p_by IS NOT NULL THEN
            PERFORM audit('abort-job', v_locks[1], 1, p_by, NULL, p_id);
        END IF;
    END IF;
    RETURN coalesce(
        v_status,
        (SELECT status FROM jobs WHERE id = p_id),
        (SELECT status FROM finished_jobs WHERE id = p_id ORDER BY finished_at DESC LIMIT 1)
    );
END $$;
