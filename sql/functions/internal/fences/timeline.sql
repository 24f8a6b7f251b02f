-- Returns the server's timeline, counted from 0. A standby that is promoted begins a new
-- timeline, and so does a backup that is restored from an archive. After pg_upgrade the count
-- begins again. The timeline is read from memory. NULL if the server does not tell it: some
-- hosted servers refuse these functions.
CREATE OR REPLACE FUNCTION timeline() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1) & 65535;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
