-- Gives a role of the database the rights of a producer, worker, operator or monitor, and revokes
-- all others that it was given in this schema, by an older version or by hand. The role is
-- recorded, so each migration grants it what a new version adds. Objects in the schema that have
-- another owner are left alone.
CREATE OR REPLACE FUNCTION grant_to(p_role text, p_kind text) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_schema regnamespace := quote_ident(current_schema())::regnamespace;
    v_change text;
BEGIN
    INSERT INTO granted_roles (role, kind) VALUES (p_role, p_kind) ON CONFLICT (role) DO UPDATE
        SET kind = excluded.kind;
    FOR v_change IN
        SELECT format('REVOKE ALL ON ROUTINE %s FROM %I', string_agg(oid::regprocedure::text, ', '),
            p_role)
        FROM pg_proc WHERE pronamespace = v_schema
            AND pg_has_role(proowner, 'USAGE') HAVING count(*) > 0
        UNION ALL
        SELECT format('REVOKE ALL ON %s FROM %I', string_agg(oid::regclass::text, ', '), p_role)
        FROM pg_class
        WHERE relnamespace = v_schema AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
            AND pg_has_role(relowner, 'USAGE')
        HAVING count(*) > 0
        UNION ALL
        SELECT format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), p_role)
        UNION ALL
        SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', pg_proc.oid::regprocedure, p_role)
        FROM surface JOIN pg_proc ON proname = name AND pronamespace = v_schema
        WHERE kind = 'function' AND p_kind = ANY (roles) AND pg_has_role(proowner, 'USAGE')
        UNION ALL
        SELECT format('GRANT SELECT %s ON %I TO %I', '(' || columns || ')', name, p_role)
        FROM surface WHERE kind = 'table' AND p_kind = ANY (roles)
    LOOP
        EXECUTE v_change;
    END LOOP;
END $$;
