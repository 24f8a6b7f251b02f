-- remove_group: removes the weight of a pattern. Its groups then have the weight of the next
-- matching pattern, or 1. Returns false if there is none.
CREATE OR REPLACE FUNCTION remove_group(p_pattern text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM groups WHERE pattern = p_pattern;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM audit('remove-group', p_pattern, 0, p_by, NULL);
    RETURN true;
END $$;
