-- Returns a name of this database that a promoted standby keeps and a restored dump does not: the
-- server's system identifier and the database's oid. Some hosted servers hide the former. A copy of
-- all files keeps the name too, and cannot be told from a standby.
CREATE OR REPLACE FUNCTION cell_home() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_database text := (SELECT oid::text FROM pg_database WHERE datname = current_database());
BEGIN
    RETURN (SELECT system_identifier || '/' || v_database FROM pg_control_system());
EXCEPTION WHEN insufficient_privilege OR undefined_function THEN
    RETURN '?/' || v_database;
END $$;
