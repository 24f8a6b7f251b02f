-- Returns when a transaction was committed, or NULL if the server does not track it
-- (track_commit_timestamp), or no longer knows.
CREATE OR REPLACE FUNCTION commit_time(p_xact xid) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN current_setting('track_commit_timestamp')::boolean
                THEN pg_xact_commit_timestamp(p_xact) END
$$;
