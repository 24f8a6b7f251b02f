-- Announces a job's end to its children, and cuts it off from its parents. For the children it only
-- adds a row; later claims handle them (settle_ends), and sleeping workers are woken to do so.
-- Returns true, for use in a condition.
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
