-- Waits a moment for keys of limits that somebody has locked, and locks them. If they stay locked
-- for longer, the call returns without any of them.
CREATE OR REPLACE FUNCTION await_keys(p_keys text[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM limit_keys WHERE key = ANY (p_keys) ORDER BY key FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;   -- the caller checks what is still locked
END $$;
