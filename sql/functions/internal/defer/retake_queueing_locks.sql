-- Gives jobs that wait again (lost_queueing_lock) their queueing locks back. If another job now
-- waits under the lock, the job continues without it. The way back to the queue never fails, and no
-- work is lost.
--
-- A rival whose transaction is still open counts as waiting: the caller holds lanes, and must not
-- wait for a user's COMMIT. Such a rival is invisible until an UPDATE runs into it. Therefore all
-- jobs are tried at once, and each half separately if that fails. After 50 ms, the remaining jobs
-- continue without their locks.
CREATE OR REPLACE FUNCTION retake_queueing_locks(
    p_ids bigint[], p_until timestamptz DEFAULT clock_timestamp() + interval '50 ms'
) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '2ms'
AS $$
DECLARE
    v_half integer := cardinality(p_ids) / 2;
BEGIN
    UPDATE jobs SET lost_queueing_lock = false
    WHERE jobs.id = ANY (ARRAY(
        SELECT DISTINCT ON (again.queueing_lock) again.id FROM jobs AS again
        WHERE again.id = ANY (p_ids)
        ORDER BY again.queueing_lock, again.id
    )) AND (
        SELECT rival.id FROM jobs AS rival
        WHERE rival.queueing_lock = jobs.queueing_lock AND rival.status <> 'doing'
            AND NOT rival.lost_queueing_lock
        LIMIT 1
    ) IS NULL;
EXCEPTION WHEN unique_violation OR lock_not_available THEN  -- a rival that we could not see
    IF v_half > 0 AND clock_timestamp() < p_until THEN
        PERFORM retake_queueing_locks(p_ids[:v_half], p_until);
        PERFORM retake_queueing_locks(p_ids[v_half + 1:], p_until);
    END IF;
END $$;
