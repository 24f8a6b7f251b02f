-- The only clock of the engine: the server's, at the start of the client's statement, so that a long transaction of
-- the caller does not make jobs look older than they are. A session may set inturn.clock to freeze it (for tests).
CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(nullif(current_setting('inturn.clock', true), '')::timestamptz, statement_timestamp())
$$;
