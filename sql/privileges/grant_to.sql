-- Gives a role of the database what a producer, worker, operator or monitor may do, and takes away whatever else it was given in this
-- schema, by an older version or by hand. It is noted, so that each migration gives it what a new version adds.
CREATE OR REPLACE FUNCTION grant_to(p_role text, p_kind text) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_change text;
BEGIN
    INSERT INTO granted_roles (role, kind) VALUES (p_role, p_kind) ON CONFLICT (role) DO UPDATE SET kind = excluded.kind;
    FOR v_change IN
        SELECT format('REVOKE ALL ON ALL %s IN SCHEMA %I FROM %I', kind, current_schema(), p_role)
        FROM unnest(ARRAY['FUNCTIONS', 'TABLES', 'SEQUENCES']) AS kind
        UNION ALL
        SELECT format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), p_role)
        UNION ALL
        SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', pg_proc.oid::regprocedure, p_role)
        FROM surface JOIN pg_proc ON proname = name AND pronamespace = quote_ident(current_schema())::regnamespace
        WHERE kind = 'function' AND p_kind = ANY (roles)
        UNION ALL
        SELECT format('GRANT SELECT %s ON %I TO %I', '(' || columns || ')', name, p_role)
        FROM surface WHERE kind = 'table' AND p_kind = ANY (roles)
    LOOP
        EXECUTE v_change;
    END LOOP;
END $$;
