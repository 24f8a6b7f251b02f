-- Returns the advisory lock between claims that add the row of a key.
CREATE OR REPLACE FUNCTION limits_key(p_key text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn limit', current_schema(), p_key), 0)
$$;
