-- Fences for user code: refuses a write to a resource that a later start has already written to.
-- The highest token of each resource is remembered. A lower token raises an exception rather than
-- returning false, which could be ignored, so the transaction with the late write cannot commit. A
-- token that no start has been given raises one too: otherwise a wrong one would lock out all later
-- starts. A database that has started no job itself accepts any token: it stores what the jobs of
-- another database write.
--
-- The row stays locked until the caller commits, even if the token is equal, so that a later start
-- waits and writes afterwards. Call this first in the transaction that writes.
CREATE OR REPLACE FUNCTION check_fence(p_resource text, p_token bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_token > (SELECT last_value FROM fences WHERE is_called) THEN
        RAISE EXCEPTION 'fence % was not given by this database', p_token
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Pass the fence of the running attempt. If this is it, its start was lost '
                    'in a failover: write nothing.';
    END IF;
    INSERT INTO fences_seen AS seen (resource, token) VALUES (p_resource, p_token)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fence % is stale: % has seen a higher one, from a later attempt', p_token,
            p_resource
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Write nothing. A later attempt does the work.';
    END IF;
END $$;
