-- Locks gates until commit, without waiting, and returns those that are now ours. A gate without a
-- row gets one. With p_to_close, others can share the lock of a gate of a task: closing it changes
-- no row, and only an opener must be kept out.
--
-- Whoever inserts the row of a gate has locked its name, as with lanes.
CREATE OR REPLACE FUNCTION try_lock_gates(p_gates text[], p_to_close boolean DEFAULT false)
    RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_shared text[] := '{}';
    v_named  text[];
    v_newest bigint[] := ARRAY(   -- the versions that we see
        SELECT (SELECT version FROM gates WHERE gates.key = wanted.key
                ORDER BY gates.version DESC LIMIT 1)
        FROM unnest(p_gates) AS wanted(key));
BEGIN
    IF array_position(v_newest, NULL) IS NOT NULL THEN
        v_named := ARRAY(
            SELECT seen.key FROM unnest(p_gates, v_newest) AS seen(key, version)
            WHERE CASE WHEN seen.version IS NULL
                       THEN pg_try_advisory_xact_lock(lock_key('gate', seen.key)) END);
        INSERT INTO gates (key)
        SELECT named.key FROM unnest(v_named) AS named(key)
        WHERE (SELECT true FROM gates WHERE gates.key = named.key LIMIT 1) IS NULL
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_to_close AND 'task:' < (SELECT max(key) FROM unnest(p_gates) AS key) THEN
        v_shared := ARRAY(SELECT key FROM gates WHERE key = ANY (p_gates) AND key >= 'task:'
            FOR SHARE SKIP LOCKED);
    END IF;
    -- Without the bound, SKIP LOCKED would go on from a locked row to its dead versions.
    RETURN v_shared || ARRAY(
        SELECT own.key FROM unnest(p_gates, v_newest) AS seen(key, version)
        CROSS JOIN LATERAL (
            SELECT gates.key FROM gates
            WHERE gates.key = seen.key AND gates.version >= coalesce(seen.version, 0)
            ORDER BY gates.version DESC LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS own
        WHERE seen.key < 'task:' OR NOT p_to_close);
END $$;
