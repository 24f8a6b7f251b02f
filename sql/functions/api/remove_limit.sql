-- remove_limit: removes the limit of a pattern. Its keys have the limit of the next pattern that
-- fits, or none. Returns false if there is none. It locks what set_limit locks.
CREATE OR REPLACE FUNCTION remove_limit(p_pattern text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_keys text[] := lock_keys_of(p_pattern);
BEGIN
    DELETE FROM limits WHERE pattern = p_pattern;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM notify_workers(wake_limited(v_keys));
    PERFORM audit('remove-limit', p_pattern, 0, p_by, NULL);
    RETURN true;
END $$;
