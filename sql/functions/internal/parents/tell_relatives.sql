-- Tells the children of a job that has ended, and cuts it off from its parents. It only adds a row
-- for the children. The claims that follow look after them (settle_ends). Sleeping workers are
-- woken for that. Returns true, so that the call can stand in a condition.
CREATE OR REPLACE FUNCTION tell_relatives(p_id bigint, p_status job_status, p_has_children boolean)
    RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM edges WHERE child = p_id;
    IF p_has_children THEN
        INSERT INTO ends (job_id, told_at, look_at, status)
        VALUES (p_id, clock(), '-infinity', p_status);   -- due, whatever the clock says
        PERFORM notify_workers(NULL);
    END IF;
    RETURN true;
END $$;
