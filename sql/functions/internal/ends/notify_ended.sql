-- Notifies the programs that wait for the end of a job, at commit. All schemas share the channel,
-- so a waiter checks whether the job is its own. Waiters also poll. Returns true, for use in a
-- condition.
CREATE OR REPLACE FUNCTION notify_ended(p_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('inturn ended', p_id::text);
    RETURN true;
END $$;
