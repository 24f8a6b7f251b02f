-- Fences for user code: refuses a write to a resource that a later start has written to. A token that is not lower than the highest
-- seen is remembered; a lower one raises, so that the transaction with the late write cannot commit. An exception and no boolean:
-- what nobody looks at protects nothing.
--
-- The row stays locked until the caller's commit, also for an equal token: a later start that asks meanwhile waits for it, and
-- writes after it. So call it first, in the transaction that writes.
CREATE OR REPLACE FUNCTION check_fence(p_resource text, p_token bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO fences_seen AS seen (resource, token) VALUES (p_resource, p_token)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fence % is stale: % has seen a higher one, so whoever holds it was taken over', p_token, p_resource
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Write nothing: a later attempt does or did it.';
    END IF;
END $$;
