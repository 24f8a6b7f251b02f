-- Waits a moment for lane rows and jobs that somebody has locked: for a claim that puts jobs behind others, or for anybody else who
-- commits at once. Whoever holds them longer is not waited for.
CREATE OR REPLACE FUNCTION await_locks(p_locks text[], p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM lanes WHERE lock = ANY (p_locks) ORDER BY lock FOR UPDATE;
    PERFORM FROM jobs WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;   -- the caller looks who is still in the way
END $$;
