-- Refuses a negative age, which would delete jobs that have not ended.
CREATE OR REPLACE FUNCTION check_age(p_age interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_age < interval '0' THEN
        RAISE EXCEPTION 'age: give 0 or more, not %', p_age
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
