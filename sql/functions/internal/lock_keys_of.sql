-- Locks all keys that a pattern fits, in order, and returns them. They get the tokens that have
-- come so far, at the rate that they still have. No claim adds a key before the caller commits.
CREATE OR REPLACE FUNCTION lock_keys_of(p_pattern text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_keys text[];
BEGIN
    PERFORM require_read_committed();
    PERFORM pg_advisory_xact_lock(limits_key());
    v_keys := ARRAY(
        SELECT key FROM limit_keys
        WHERE key = p_pattern
            OR (right(p_pattern, 1) = '*' AND starts_with(key, left(p_pattern, -1)))
        ORDER BY key FOR UPDATE);
    PERFORM fold_key(key) FROM unnest(v_keys) AS key;
    RETURN v_keys;
END $$;
