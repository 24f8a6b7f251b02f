-- Retries a job without moving it: a finished job returns to its place in its lane, and a scheduled
-- or pending one becomes due now. The caller knows that it halts no lane. Returns false if there
-- was nothing to do. If it has ended, it did so between p_from and p_until.
CREATE OR REPLACE FUNCTION retry_at_its_place(
    p_id    bigint,
    p_from  timestamptz DEFAULT '-infinity',
    p_until timestamptz DEFAULT 'infinity'
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_status job_status;
BEGIN
    -- A claim may be about to make a scheduled job pending, so lock it before reading its status.
    SELECT CASE WHEN is_pending(jobs) THEN 'pending' ELSE status END INTO v_status FROM jobs
    WHERE id = p_id AND coalesce(status IN ('scheduled', 'pending'), false) FOR UPDATE;
    IF v_status IS NOT NULL THEN
        IF v_status = 'pending' THEN
            DELETE FROM edges WHERE child = p_id;
        END IF;
        -- A scheduled job that comes after others becomes due now, and promote checks its parents.
        UPDATE jobs
        SET status = CASE WHEN v_status = 'scheduled' AND has_parents THEN v_status ELSE 'todo' END,
            scheduled_at = clock(),   -- it could not have started before
            delayed_at = CASE WHEN v_status = 'scheduled' THEN clock() END,
            has_parents = CASE WHEN v_status = 'scheduled' THEN has_parents END,
            abort = false   -- it may have been asked of the attempt before
        WHERE id = p_id;
        PERFORM join_lanes(ARRAY[id]) FROM jobs WHERE id = p_id AND locks IS NOT NULL;
    ELSIF restore_job(p_id, p_from, p_until) = 0 THEN
        RETURN false;
    END IF;
    PERFORM notify_workers(NULL);
    RETURN true;
END $$;
