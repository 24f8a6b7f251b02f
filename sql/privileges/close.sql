-- Closes the schema after each change of the code, in the same transaction. CREATE OR REPLACE
-- resets a function to run as its caller, on its caller's search_path, and PUBLIC may call a new
-- function. Objects in the schema that have another owner are left alone.
DO $$
DECLARE
    v_schema  regnamespace := quote_ident(current_schema())::regnamespace;
    v_missing text;
    v_change  text;
BEGIN
    SELECT string_agg(name, ', ') INTO v_missing FROM surface
    WHERE NOT CASE kind WHEN 'table' THEN to_regclass(quote_ident(name)) IS NOT NULL
                        ELSE EXISTS (SELECT FROM pg_proc WHERE proname = name
                            AND pronamespace = v_schema) END;
    IF v_missing IS NOT NULL THEN
        RAISE EXCEPTION 'sql/privileges/surface.sql lists objects that do not exist: %', v_missing;
    END IF;

    FOR v_change IN
        -- clock needs no owner's rights: it changes nothing, and views inline its text.
        SELECT format('ALTER FUNCTION %s SECURITY DEFINER SET search_path FROM CURRENT',
            oid::regprocedure)
        FROM pg_proc JOIN surface ON kind = 'function' AND name = proname
        WHERE pronamespace = v_schema AND name <> 'clock' AND pg_has_role(proowner, 'USAGE')
        UNION ALL
        -- Except the objects of an extension, if one is installed in this schema.
        SELECT format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', oid::regprocedure)
        FROM pg_proc
        WHERE pronamespace = v_schema AND pg_has_role(proowner, 'USAGE')
          AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass
              AND objid = pg_proc.oid AND deptype = 'e')
        UNION ALL
        SELECT format('REVOKE ALL ON %s FROM PUBLIC', oid::regclass)
        FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) AS granted
        WHERE relnamespace = v_schema AND granted.grantee = 0 AND pg_has_role(relowner, 'USAGE')
          AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass
              AND objid = pg_class.oid AND deptype = 'e')
    LOOP
        EXECUTE v_change;
    END LOOP;

    PERFORM grant_to(role, kind) FROM granted_roles WHERE to_regrole(quote_ident(role)) IS NOT NULL;
END $$;
