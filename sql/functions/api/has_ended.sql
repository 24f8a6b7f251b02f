-- Whether an attempt has ended its job in a transaction of its own, asked when the reply to its COMMIT was lost. What is still being
-- committed is waited for, but only for a moment. NULL: it is not known yet, somebody has the job's row locked; it may be a user. Of a
-- job that left no history (delete_jobs) it is told by that.
CREATE OR REPLACE FUNCTION has_ended(p_id bigint, p_claim uuid, p_fence bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM require_read_committed();
    PERFORM await_locks('{}', ARRAY[p_id]);
    PERFORM FROM jobs WHERE id = p_id AND claim_id = p_claim FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN false;
    ELSIF EXISTS (SELECT FROM jobs WHERE id = p_id AND claim_id = p_claim) THEN
        RETURN NULL;
    END IF;
    RETURN EXISTS (SELECT FROM finished_jobs WHERE id = p_id AND fence = p_fence)
        OR NOT EXISTS (SELECT FROM all_jobs WHERE id = p_id);
END $$;
