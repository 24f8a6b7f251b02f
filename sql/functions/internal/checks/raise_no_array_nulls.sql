-- Raises an error for a session that reads a NULL in an array as the text 'NULL': jobs without a
-- lock would all get this lock.
CREATE OR REPLACE FUNCTION raise_no_array_nulls() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'array_nulls is off, but inturn passes NULLs in arrays. Try: %',
            format('ALTER ROLE %I SET array_nulls = on', session_user)
        USING ERRCODE = 'invalid_transaction_state';
END $$;
