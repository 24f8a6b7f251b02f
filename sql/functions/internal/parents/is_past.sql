-- Returns whether a noted transaction and all that began before it are over. One that lies in the
-- future is over too: it was noted on another server, of which this database is a copy.
--
-- Our own id may lie beyond the snapshot's end, and is not over.
CREATE OR REPLACE FUNCTION is_past(p_xact bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_xact <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        OR p_xact > greatest(pg_snapshot_xmax(pg_current_snapshot()),
            pg_current_xact_id_if_assigned())::text::bigint
$$;
