-- The only clock of the engine: the server's, at the start of the client's statement, so that a long transaction of
-- the caller does not make jobs look older than they are.
--
-- A session may set inturn.clock to freeze it (for tests), if it belongs to the owner of the schema: inside a function that is called
-- from outside, the current user is the owner. Someone who reads a view can only fool himself. All names here are of pg_catalog,
-- so that a view can ask it whatever the path of its reader.
CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
        CASE WHEN current_setting('inturn.clock', true) <> '' THEN
            CASE WHEN pg_has_role(session_user, current_user, 'MEMBER') THEN current_setting('inturn.clock')::timestamptz END
        END,
        statement_timestamp())
$$;
