-- Looks again at keys of limits for which a token has come, or whose next job was locked. Bounded.
-- It waits for nobody.
CREATE OR REPLACE FUNCTION resume_keys(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_key text;
BEGIN
    FOR v_key IN
        SELECT key FROM limit_keys WHERE look_at <= clock() ORDER BY look_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM notify_workers(wake_limited(ARRAY[v_key]));
    END LOOP;
END $$;
