-- Returns when a transaction was committed, or NULL if the server does not track it
-- (track_commit_timestamp), or no longer knows. Volatile, as what it calls is, so that the planner
-- inlines it.
CREATE OR REPLACE FUNCTION commit_time(p_xact xid) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN current_setting('track_commit_timestamp')::boolean
                THEN pg_xact_commit_timestamp(p_xact) END
$$;
