-- Declares workers dead whose heartbeats have stood still before the caller's eyes: each is named with the heartbeat that was seen, so
-- that one which was heard of meanwhile is left alone. So is one whose row somebody has locked: it may be unable to say
-- that it lives. Returns those that are dead now; rescue takes their jobs back.
CREATE OR REPLACE FUNCTION declare_dead(p_workers uuid[], p_heartbeats timestamptz[]) RETURNS SETOF uuid
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH silent AS MATERIALIZED (
        SELECT workers.id
        FROM unnest(p_workers, p_heartbeats) AS seen(id, heartbeat_at)
        JOIN workers ON workers.id = seen.id AND workers.heartbeat_at = seen.heartbeat_at
        FOR UPDATE OF workers SKIP LOCKED
    )
    DELETE FROM workers USING silent WHERE workers.id = silent.id RETURNING workers.id
$$;
