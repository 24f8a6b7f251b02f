-- Raises the error for job arguments that are too large.
CREATE OR REPLACE FUNCTION raise_args_too_large(p_bytes integer, p_most integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'args: % bytes of JSON, at most %. Store the data and pass a reference',
        to_char(p_bytes, 'FM999,999,999,999'), to_char(p_most, 'FM999,999,999,999')
        USING ERRCODE = 'invalid_parameter_value';
END $$;
