-- Returns whether an attempt has ended its job in its own transaction. A worker asks when the reply
-- to its COMMIT was lost. If the transaction is still committing, the call waits for a moment. NULL
-- means not known yet, because another session, perhaps a user's, has the job's row locked. A job
-- that leaves no history (delete_jobs) has ended if it is gone.
CREATE OR REPLACE FUNCTION has_ended(p_id bigint, p_claim uuid, p_fence bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_settings();
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
