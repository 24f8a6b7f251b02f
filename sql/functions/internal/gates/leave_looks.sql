-- Asks the next claims to check these gates, because a job that may have been woken there does not
-- pass, or because a limit has changed. It only adds a row for each gate at which jobs wait, so it
-- never waits or blocks others. Returns true, for use in a condition.
CREATE OR REPLACE FUNCTION leave_looks(p_gates text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gate_looks (key, left_at)
    SELECT asked.gate, clock() FROM unnest(p_gates) AS asked(gate)
    WHERE (SELECT true FROM gated_jobs WHERE gated_jobs.gate = asked.gate LIMIT 1);
    IF FOUND THEN
        PERFORM notify_workers(NULL);
    END IF;
    RETURN true;
END $$;
