-- Returns the server's timeline, counted from 0, or NULL where it cannot be read: some hosted
-- servers refuse these functions. A new timeline begins when a standby is promoted or a backup is
-- restored from an archive. pg_upgrade resets the count. The timeline is read from memory.
CREATE OR REPLACE FUNCTION timeline() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1)
        & 65535::bigint;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
