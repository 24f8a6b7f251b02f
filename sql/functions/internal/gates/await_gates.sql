-- Locks gates until commit, and returns those that stay locked by others for longer than a moment.
--
-- It must not take the free gates first and then wait for the others: two callers could each hold
-- what the other one waits for.
CREATE OR REPLACE FUNCTION await_gates(p_gates text[]) RETURNS text[]
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM gates WHERE key = ANY (p_gates) ORDER BY key FOR UPDATE;
    RETURN '{}';
EXCEPTION WHEN lock_not_available THEN
    RETURN ARRAY(SELECT unnest(p_gates) EXCEPT SELECT unnest(try_lock_gates(p_gates)));
END $$;
