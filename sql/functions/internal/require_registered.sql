-- A worker without a row was taken for dead and its jobs taken over: it must learn that, not go on claiming.
CREATE OR REPLACE FUNCTION require_registered(p_worker uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM workers WHERE id = p_worker) THEN
        RAISE EXCEPTION 'worker % is not registered', p_worker
            USING ERRCODE = 'no_data_found', HINT = 'It was taken for dead. Register again under a new id.';
    END IF;
END $$;
