-- Raises an error unless the transaction is READ COMMITTED and arrays can have NULLs. The engine
-- decides on what it reads *after* it has a lane. With one snapshot for the whole transaction it
-- would decide on stale data, so calls that take a lane or a gate refuse to run there.
CREATE OR REPLACE FUNCTION require_settings() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION
            'inturn changes jobs only in READ COMMITTED transactions, and this one is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state',
                  HINT = 'Use a connection with the default isolation level for workers.';
    END IF;
    IF current_setting('array_nulls') <> 'on' THEN
        PERFORM raise_no_array_nulls();
    END IF;
END $$;
