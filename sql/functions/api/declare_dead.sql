-- Removes workers whose heartbeats did not change while the caller watched. The caller passes the
-- heartbeat that it saw for each worker, so a worker that has reported since is left alone. So is a
-- worker whose row is locked: it may be unable to report. Returns the workers that are now dead.
-- rescue takes back their jobs.
CREATE OR REPLACE FUNCTION declare_dead(p_workers uuid[], p_heartbeats timestamptz[])
    RETURNS SETOF uuid
LANGUAGE sql AS $$
    WITH silent AS MATERIALIZED (
        SELECT workers.id
        FROM unnest(p_workers, p_heartbeats) AS seen(id, heartbeat_at)
        JOIN workers ON workers.id = seen.id AND workers.heartbeat_at = seen.heartbeat_at
        FOR UPDATE OF workers SKIP LOCKED
    )
    DELETE FROM workers USING silent WHERE workers.id = silent.id RETURNING workers.id
$$;
