-- Locks keys of limits until commit, without waiting, and returns those that are now ours. A key
-- without a row gets one. The advisory lock keeps an INSERT from waiting for another claim's (see
-- acquire_lanes).
CREATE OR REPLACE FUNCTION try_lock_keys(p_keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limit_keys (key)
    SELECT wanted.key FROM unnest(p_keys) AS wanted(key)
    WHERE CASE WHEN (SELECT k.key FROM limit_keys AS k WHERE k.key = wanted.key) IS NULL
               THEN pg_try_advisory_xact_lock(limits_key(wanted.key)) END
    ON CONFLICT DO NOTHING;
    RETURN ARRAY(SELECT key FROM limit_keys WHERE key = ANY (p_keys) ORDER BY key
        FOR UPDATE SKIP LOCKED);
END $$;
