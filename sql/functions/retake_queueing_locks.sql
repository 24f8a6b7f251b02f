-- Jobs that wait again, without their queueing locks so far (they yield), get them back; where another job waits under one by
-- now, they go without. So the way back to the queue never fails, and nobody's work is lost.
--
-- A rival whose transaction is still open counts as one that waits: we hold lanes here, and wait for no user's COMMIT.
CREATE OR REPLACE FUNCTION retake_queueing_locks(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '10ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_job record;
BEGIN
    FOR v_job IN SELECT id, queueing_lock FROM jobs WHERE id = ANY (p_ids) ORDER BY queueing_lock, id LOOP
        BEGIN
            UPDATE jobs SET yields = false
            WHERE jobs.id = v_job.id AND NOT EXISTS (
                SELECT FROM jobs AS rival
                WHERE rival.queueing_lock = v_job.queueing_lock AND rival.status <> 'doing' AND NOT rival.yields
            );
        EXCEPTION WHEN unique_violation OR lock_not_available THEN   -- one that we could not see when we looked
            NULL;
        END;
    END LOOP;
END $$;
