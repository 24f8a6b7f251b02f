-- Raises an error if the worker has no row: it was declared dead and its jobs were taken over. It
-- must learn this before it claims more.
CREATE OR REPLACE FUNCTION require_registered(p_worker uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM workers WHERE id = p_worker) THEN
        RAISE EXCEPTION 'worker % is not registered', p_worker
            USING ERRCODE = 'no_data_found',
                HINT = 'It was declared dead. Register again to get a new id.';
    END IF;
END $$;
