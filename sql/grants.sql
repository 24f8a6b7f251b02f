-- The roles of the queue, and what each may do. See docs/security.md and the view `surface`.
--
-- Run it after `queue migrate`, as a superuser or as the role that owns the schema. That role must
-- be allowed to create roles, unless they exist. You can run the script again at any time. Without
-- a prefix, it keeps the roles of the last run.
DO $inturn$
DECLARE
    v_schema  regnamespace := to_regnamespace(quote_ident({schema}));
    v_prefix  text := {prefix};     -- of the names of the roles; NULL: that of the last run
    v_kinds   text[] := {kinds};    -- what the roles may do that get the rights
    v_groups  text[] := {groups};   -- the role of each of these kinds
    v_members text[] := {members};  -- gets this role as a member
    v_last    text;
    v_owner   text;
    v_roles   text[];               -- they cannot log in
    v_change  text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = v_schema AND relname = 'granted_roles')
        THEN
        RAISE EXCEPTION 'inturn is not in the schema % (found in: %)', quote_literal({schema}),
            (SELECT coalesce(string_agg(relnamespace::regnamespace::text, ', '), 'none')
             FROM pg_class WHERE relname = 'granted_roles')
            USING ERRCODE = 'invalid_schema_name', HINT = 'Create it: queue migrate';
    END IF;
    FOR v_change IN SELECT member FROM unnest(v_members) AS member
        WHERE to_regrole(quote_ident(member)) IS NULL LOOP
        RAISE EXCEPTION 'there is no role %, which should become a member', quote_ident(v_change)
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Create it: CREATE ROLE ' || quote_ident(v_change) || ' LOGIN';
    END LOOP;
    PERFORM pg_advisory_xact_lock(hashtextextended('inturn migrate ' || {schema}, 0));
    SET LOCAL lock_timeout = '10s';   -- all other sessions wait behind us

    -- From the rights themselves, which are readable without any.
    SELECT prefix INTO v_last
    FROM pg_namespace CROSS JOIN LATERAL aclexplode(nspacl) AS granted
    JOIN pg_roles ON pg_roles.oid = grantee
    JOIN unnest(v_kinds) AS kind ON right(rolname, 1 + length(kind)) = '_' || kind
    CROSS JOIN LATERAL (SELECT left(rolname, -1 - length(kind)) AS prefix) AS named
    WHERE pg_namespace.oid = v_schema AND privilege_type = 'USAGE'
    GROUP BY prefix, nspowner HAVING count(DISTINCT kind) = cardinality(v_kinds)
    ORDER BY to_regrole(quote_ident(prefix || '_owner')) = nspowner DESC NULLS LAST, prefix LIMIT 1;
    v_prefix := coalesce(v_prefix, v_last, {schema});
    v_owner := v_prefix || '_owner';
    v_roles := ARRAY(SELECT v_prefix || '_' || kind FROM unnest(v_kinds) AS kind);
    IF v_prefix <> v_last THEN
        RAISE WARNING 'the roles were %_owner, %_producer and so on', v_last, v_last
            USING DETAIL = 'They keep their rights, but ' || v_owner || ' owns the schema now, and '
                'the members of ' || v_last || '_owner can no longer migrate.';
    END IF;

    FOR v_change IN
        SELECT format('CREATE ROLE %I NOLOGIN', role) FROM unnest(v_owner || v_roles) AS role
        WHERE to_regrole(quote_ident(role)) IS NULL
    LOOP
        EXECUTE v_change;
    END LOOP;

    -- Hand over the schema and continue as its owner. Since PostgreSQL 16, creating a role does not
    -- entitle you to that.
    IF NOT pg_has_role(v_owner, CASE WHEN current_setting('server_version_num')::int < 160000
        THEN 'MEMBER' ELSE 'SET' END) THEN
        EXECUTE format('GRANT %I TO %I', v_owner, current_user);
    END IF;

    FOR v_change IN
        SELECT format('GRANT %I TO %I', role, member)
        FROM unnest(v_groups, v_members) AS belongs(kind, member)
        CROSS JOIN LATERAL (SELECT v_prefix || '_' || kind AS role) AS named
        WHERE NOT pg_has_role(member, role, 'MEMBER')
        UNION ALL
        SELECT format('GRANT USAGE, CREATE ON SCHEMA %s TO %I', v_schema, v_owner)
        FROM pg_namespace WHERE oid = v_schema AND nspowner <> quote_ident(v_owner)::regrole
        UNION ALL
        -- Tables, partitions, views and sequences. What belongs to a table moves with it. Objects
        -- that you do not own keep their owner.
        SELECT format('ALTER TABLE %s OWNER TO %I', oid::regclass, v_owner)
        FROM pg_class
        WHERE relnamespace = v_schema AND relowner <> quote_ident(v_owner)::regrole
            AND pg_has_role(relowner, 'USAGE')
          AND (relkind IN ('r', 'p', 'v') OR relkind = 'S' AND NOT EXISTS (
              SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid
                  AND deptype IN ('a', 'i')))
        UNION ALL
        SELECT format('ALTER TYPE %s OWNER TO %I', oid::regtype, v_owner)
        FROM pg_type
        WHERE typnamespace = v_schema
          AND (typtype = 'e' OR (SELECT relkind FROM pg_class WHERE pg_class.oid = typrelid) = 'c')
          AND typowner <> quote_ident(v_owner)::regrole AND pg_has_role(typowner, 'USAGE')
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO %I', oid::regprocedure, v_owner)
        FROM pg_proc
        WHERE pronamespace = v_schema AND proowner <> quote_ident(v_owner)::regrole
            AND pg_has_role(proowner, 'USAGE')
        UNION ALL
        SELECT format('ALTER SCHEMA %s OWNER TO %I', v_schema, v_owner)
        FROM pg_namespace WHERE oid = v_schema AND nspowner <> quote_ident(v_owner)::regrole
        UNION ALL
        SELECT format('SET LOCAL ROLE %I', v_owner)
        UNION ALL
        -- For functions that the owner creates by hand. It cannot be limited to one schema.
        SELECT 'ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC'
        UNION ALL
        SELECT format('SELECT %s.grant_to(%L, %L)', v_schema, role, kind)
        FROM unnest(v_roles, v_kinds) AS granted(role, kind)
    LOOP
        EXECUTE v_change;
    END LOOP;
END $inturn$;
