-- Returns the advisory lock between claims that add the row of a key, or, without a key, between
-- claims that add any and people who change limits.
CREATE OR REPLACE FUNCTION limits_key(p_key text DEFAULT NULL) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn limit', current_schema(), p_key), 0)
$$;
