-- Takes a job that has `locks` out of the lines of its lanes. Returns true, for use in a condition.
CREATE OR REPLACE FUNCTION leave_line(p_id bigint, p_priority integer, p_locks text[])
    RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM waits
    WHERE waits.lock = ANY (p_locks[2:]) AND waits.priority = p_priority AND waits.id = p_id;
    RETURN true;
END $$;
