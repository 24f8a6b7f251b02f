-- Jobs that wait again get their queueing locks back; where another job waits under one by now, they go without. So the way
-- back to the queue never fails, and nobody's work is lost.
--
-- A rival whose transaction is still open counts as one that waits: we hold lanes here, and wait for no user's COMMIT.
CREATE OR REPLACE FUNCTION retake_queueing_locks(p_ids bigint[], p_queueing_locks text[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '10ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_job record;
BEGIN
    FOR v_job IN
        SELECT * FROM unnest(p_ids, p_queueing_locks) AS j(id, queueing_lock) ORDER BY j.queueing_lock, j.id
    LOOP
        BEGIN
            UPDATE jobs SET queueing_lock = v_job.queueing_lock
            WHERE jobs.id = v_job.id AND NOT EXISTS (
                SELECT FROM jobs AS rival WHERE rival.queueing_lock = v_job.queueing_lock AND rival.status <> 'doing'
            );
        EXCEPTION WHEN unique_violation OR lock_not_available THEN   -- one that we could not see when we looked
            NULL;
        END;
    END LOOP;
END $$;
