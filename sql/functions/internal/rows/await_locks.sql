-- Waits a moment for locked lane rows and jobs. The session may be a claim that blocks jobs, or
-- another one that commits soon. If they stay locked for longer, returns without them.
CREATE OR REPLACE FUNCTION await_locks(p_locks text[], p_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM lanes WHERE lock = ANY (p_locks) ORDER BY lock FOR UPDATE;
    PERFORM FROM jobs WHERE id = ANY (p_ids) ORDER BY id FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;   -- the caller checks what is still locked
END $$;
