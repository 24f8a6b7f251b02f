-- Returns the gate that guards a limit: the place where jobs of this key wait for a slot or a
-- token.
CREATE OR REPLACE FUNCTION limit_gate(p_key text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT 'limit:' || p_key
$$;
