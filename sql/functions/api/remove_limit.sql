-- remove_limit: removes the limit of a pattern. Its keys then have the limit of the next matching
-- pattern, or none. Returns false if there is none. Like set_limit, it locks no key.
CREATE OR REPLACE FUNCTION remove_limit(p_pattern text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_settings();
    DELETE FROM limits WHERE pattern = p_pattern;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM leave_looks(gates_of(p_pattern));
    PERFORM audit('remove-limit', p_pattern, 0, p_by, NULL);
    RETURN true;
END $$;
