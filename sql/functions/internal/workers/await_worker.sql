-- Waits a moment for the row of a worker. Returns false if the row is still locked, or gone.
CREATE OR REPLACE FUNCTION await_worker(p_worker uuid) RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR UPDATE;
    RETURN FOUND;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
