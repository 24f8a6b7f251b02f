-- Waits a moment for locked gates, and locks them. If they stay locked for longer, returns without
-- any of them.
CREATE OR REPLACE FUNCTION await_gates(p_gates text[]) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM gates WHERE key = ANY (p_gates) ORDER BY key FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;   -- the caller checks what is still locked
END $$;
