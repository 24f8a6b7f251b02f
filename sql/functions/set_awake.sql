-- A worker says that it finds jobs without being told (true), or that it may go to sleep (false); see wake and next_wake.
CREATE OR REPLACE FUNCTION set_awake(p_worker uuid, p_awake boolean) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    UPDATE workers SET awake = p_awake WHERE id = p_worker
$$;
