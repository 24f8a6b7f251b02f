-- Like lock_lane, but also locks the other lanes of the job that the lane waits for: the job that
-- has halted it, the job it is reserved for, or its head. Returns the lane's row and that job, or
-- NULL if nothing waits. Lanes are locked in their order, so the job is read before they are locked
-- and again afterwards. If another job is now next, the call starts over.
CREATE OR REPLACE FUNCTION lock_next_job(p_lock text, OUT lane lanes, OUT job job_lanes)
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    LOOP
        job := next_job(p_lock);
        BEGIN   -- a block, to be able to give the lanes back
            PERFORM lock_lane(wanted.lock) FROM (
                SELECT DISTINCT lock COLLATE "C" AS lock FROM unnest(p_lock || job.locks) AS lock
                ORDER BY 1
            ) AS wanted;
            SELECT * INTO lane FROM lanes WHERE lock = p_lock;
            v_id := (next_job(p_lock)).id;
            EXIT WHEN v_id IS NOT DISTINCT FROM job.id;
            RAISE EXCEPTION 'the next job of lane % is another one', p_lock USING ERRCODE = 'IT001';
        EXCEPTION WHEN SQLSTATE 'IT001' THEN
            NULL;
        END;
    END LOOP;
END $$;
