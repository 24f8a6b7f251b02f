-- Records whether a worker is awake. An awake worker finds jobs without a notification (see
-- notify_workers and next_wake). Returns false if this could not be recorded because the worker's
-- row is locked; a worker about to sleep must then look again soon.
CREATE OR REPLACE FUNCTION set_awake(p_worker uuid, p_awake boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT lock_worker(p_worker) THEN
        -- A worker that was declared dead learns that elsewhere.
        RETURN NOT EXISTS (SELECT FROM workers WHERE id = p_worker);
    END IF;
    UPDATE workers SET awake = p_awake WHERE id = p_worker;
    RETURN true;
END $$;
