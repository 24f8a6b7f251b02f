-- A worker says that it finds jobs without being told (true), or that it may go to sleep (false); see wake and next_wake. False:
-- it could not, because somebody has its row locked; whoever wants to sleep must look again soon instead.
CREATE OR REPLACE FUNCTION set_awake(p_worker uuid, p_awake boolean) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT lock_worker(p_worker) THEN
        RETURN NOT EXISTS (SELECT FROM workers WHERE id = p_worker);   -- it was taken for dead, and learns that elsewhere
    END IF;
    UPDATE workers SET awake = p_awake WHERE id = p_worker;
    RETURN true;
END $$;
