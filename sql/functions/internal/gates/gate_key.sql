-- Returns the advisory lock that guards the insert of a gate's row by claims.
CREATE OR REPLACE FUNCTION gate_key(p_gate text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn gate', current_schema(), p_gate), 0)
$$;
