-- Refuses a negative age. With it, jobs would be deleted that are yet to end.
CREATE OR REPLACE FUNCTION check_age(p_age interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_age < interval '0' THEN
        RAISE EXCEPTION 'age: give 0 or more, and not %', p_age
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
