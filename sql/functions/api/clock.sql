-- The only clock of the engine: the server's time at the start of the client's statement, so a
-- caller's long transaction does not make jobs look older than they are.
--
-- A session may set inturn.clock to freeze the time for tests, if its user is a member of the role
-- that owns the schema. (Inside a function that is called from outside, the current user is the
-- owner.) In a view it affects only the session itself. All names here belong to pg_catalog, so a
-- view can call the function whatever its reader's search_path is.
CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
        CASE WHEN current_setting('inturn.clock', true) <> '' THEN
            CASE WHEN pg_has_role(session_user, current_user, 'MEMBER')
                THEN current_setting('inturn.clock')::timestamptz END
        END,
        statement_timestamp())
$$;
