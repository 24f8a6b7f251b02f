-- Does the work of retry and put_back for jobs that have `locks`. Some keep all of their lanes:
-- those that they held alone wait for them, and they keep their shares. Others leave their lanes,
-- and join them again if they are due. Returns the queues of new tokens. The caller holds the rows.
CREATE OR REPLACE FUNCTION keep_or_leave(p_keeping job_lanes[], p_leaving job_lanes[])
    RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_free    text[];
    v_stopped text[];
    v_shared  text[];
BEGIN
    UPDATE lanes SET worker_id = NULL, job_id = own.id, since = clock()
    FROM (
        SELECT job.id, lane FROM unnest(p_keeping) AS job
        CROSS JOIN LATERAL unnest(job.locks) AS lane
        WHERE coalesce(lane <> ALL (job.shared), true)
    ) AS own
    WHERE lanes.lock = ANY (ARRAY[own.lane]);
    IF p_leaving IS NULL THEN
        RETURN '{}';
    END IF;

    v_free := ARRAY(SELECT leave_lanes(p_leaving));
    v_shared := ARRAY(SELECT DISTINCT unnest(job.shared) FROM unnest(p_leaving) AS job);
    PERFORM join_lanes(ARRAY(SELECT job.id FROM unnest(p_leaving) AS job));
    v_stopped := ARRAY(SELECT lock FROM lanes WHERE lock = ANY (v_free)
        AND coalesce(stopped IS NOT NULL, false));
    UPDATE lanes SET worker_id = NULL, since = clock() WHERE lock = ANY (v_stopped);
    RETURN release_lanes(ARRAY(SELECT unnest(v_free) EXCEPT SELECT unnest(v_stopped)))
        || wake_readers(v_shared);
END $$;
