-- Whether the job under a queueing lock still waits; if so it does until the caller commits: claims pass over it, for what the caller
-- writes is part of what the job is to see. In REPEATABLE READ a job that has started since is a serialization failure.
CREATE OR REPLACE FUNCTION rely_on_waiting(p_id bigint, p_queueing_lock text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    -- SHARE: others may rely on it too. Not KEY SHARE, which would let it start.
    PERFORM FROM jobs WHERE id = p_id AND queueing_lock = p_queueing_lock AND status <> 'doing' AND NOT lost_queueing_lock FOR SHARE;
    RETURN FOUND;
END $$;
