-- Asks the next claims to check these keys, because a job that may have been woken for a slot does
-- not take it, or because a limit has changed. It only adds a row for each key that jobs wait for,
-- so it never waits or blocks others. Returns true, for use in a condition.
CREATE OR REPLACE FUNCTION leave_looks(p_keys text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limit_looks (key, left_at)
    SELECT key, clock() FROM unnest(p_keys) AS key
    WHERE (SELECT true FROM jobs WHERE status = 'limited' AND limit_key = key LIMIT 1);
    IF FOUND THEN
        PERFORM notify_workers(NULL);
    END IF;
    RETURN true;
END $$;
