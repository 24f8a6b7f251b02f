-- Locks gates until commit, without waiting, and returns those that are now ours. A gate without a
-- row gets one. With p_to_close, others can share the lock of a gate of a task: closing it changes
-- no row, and only an opener must be kept out.
--
-- The advisory lock keeps an INSERT from waiting for another claim's (see acquire_lanes).
CREATE OR REPLACE FUNCTION try_lock_gates(p_gates text[], p_to_close boolean DEFAULT false)
    RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_shared text[] := '{}';
BEGIN
    IF (SELECT count(*) FROM gates WHERE key = ANY (p_gates)) < cardinality(p_gates) THEN
        INSERT INTO gates (key)
        SELECT wanted.key FROM unnest(p_gates) AS wanted(key)
        WHERE CASE WHEN (SELECT k.key FROM gates AS k WHERE k.key = wanted.key) IS NULL
                   THEN pg_try_advisory_xact_lock(lock_key('gate', wanted.key)) END
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_to_close AND 'task:' < (SELECT max(key) FROM unnest(p_gates) AS key) THEN
        v_shared := ARRAY(SELECT key FROM gates WHERE key = ANY (p_gates) AND key >= 'task:'
            FOR SHARE SKIP LOCKED);
    END IF;
    RETURN v_shared || ARRAY(
        SELECT key FROM gates
        WHERE key = ANY (p_gates) AND (key < 'task:' OR NOT p_to_close)
        ORDER BY key
        FOR UPDATE SKIP LOCKED);
END $$;
