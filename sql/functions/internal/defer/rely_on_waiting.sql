-- Returns whether the job under a queueing lock still waits. If so, claims pass over it until the
-- caller commits, because the job must see what the caller writes. In REPEATABLE READ, a job that
-- has started since raises a serialization failure.
CREATE OR REPLACE FUNCTION rely_on_waiting(p_id bigint, p_queueing_lock text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    -- SHARE, because others may rely on it too. KEY SHARE would let the job start.
    PERFORM FROM jobs WHERE id = p_id
        AND queueing_lock = p_queueing_lock AND status <> 'doing' AND NOT lost_queueing_lock
    FOR SHARE;
    RETURN FOUND;
END $$;
