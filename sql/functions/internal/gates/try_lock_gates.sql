-- Locks gates until commit, without waiting, and returns those that are now ours. A gate without a
-- row gets one. The advisory lock keeps an INSERT from waiting for another claim's (see
-- acquire_lanes).
CREATE OR REPLACE FUNCTION try_lock_gates(p_gates text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gates (key)
    SELECT wanted.key FROM unnest(p_gates) AS wanted(key)
    WHERE CASE WHEN (SELECT k.key FROM gates AS k WHERE k.key = wanted.key) IS NULL
               THEN pg_try_advisory_xact_lock(gate_key(wanted.key)) END
    ON CONFLICT DO NOTHING;
    RETURN ARRAY(SELECT key FROM gates WHERE key = ANY (p_gates) ORDER BY key
        FOR UPDATE SKIP LOCKED);
END $$;
