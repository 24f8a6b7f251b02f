-- Waits a moment for locked keys of limits, and locks them. If they stay locked for longer, returns
-- without any of them.
CREATE OR REPLACE FUNCTION await_keys(p_keys text[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM limit_keys WHERE key = ANY (p_keys) ORDER BY key FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;   -- the caller checks what is still locked
END $$;
