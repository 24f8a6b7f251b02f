-- Returns the job that a lane waits for, with its lanes: the one that has halted it, the one that
-- it is reserved for, or its head. NULL if nothing waits.
CREATE OR REPLACE FUNCTION next_job(p_lock text) RETURNS job_lanes
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_id     bigint;
    v_result job_lanes;
BEGIN
    SELECT coalesce(failed_job_id, job_id) INTO v_id FROM lanes WHERE lock = p_lock;
    v_id := coalesce(v_id, (SELECT id FROM lane_heads(ARRAY[p_lock])));
    SELECT id, lanes_of(lock, locks), shared INTO v_result FROM jobs WHERE id = v_id;
    IF NOT FOUND THEN
        SELECT id, lanes_of(lock, locks), shared INTO v_result
        FROM finished_jobs WHERE id = v_id ORDER BY finished_at DESC LIMIT 1;
    END IF;
    v_result.id := v_id;
    v_result.locks := coalesce(v_result.locks, CASE WHEN v_id IS NOT NULL THEN ARRAY[p_lock] END);
    RETURN v_result;
END $$;
