-- Whether an attempt has ended its job in a transaction of its own, asked when the reply to its COMMIT was lost. The job's row is
-- locked first: what is still being committed is waited for. Of a job that left no history (delete_jobs) it is told by that.
CREATE OR REPLACE FUNCTION has_ended(p_id bigint, p_claim uuid, p_fence bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM require_read_committed();
    PERFORM FROM jobs WHERE id = p_id AND claim_id = p_claim FOR UPDATE;
    RETURN NOT FOUND AND (
        EXISTS (SELECT FROM finished_jobs WHERE id = p_id AND fence = p_fence)
        OR NOT EXISTS (SELECT FROM all_jobs WHERE id = p_id)
    );
END $$;
