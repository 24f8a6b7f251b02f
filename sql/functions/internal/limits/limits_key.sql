-- Returns the advisory lock that guards the insert of a key's row by claims.
CREATE OR REPLACE FUNCTION limits_key(p_key text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn limit', current_schema(), p_key), 0)
$$;
