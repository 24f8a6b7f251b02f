-- Wakes the next jobs of these keys, since a job that may have been woken for a slot does not take
-- it. It waits for the keys. Only people call it, after they have locked lanes and jobs.
CREATE OR REPLACE FUNCTION pass_on(p_keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_keys text[];
BEGIN
    v_keys := ARRAY(
        SELECT key FROM limit_keys WHERE key = ANY (p_keys) ORDER BY key FOR UPDATE);
    PERFORM notify_workers(wake_limited(v_keys));
END $$;
