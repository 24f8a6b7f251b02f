-- Returns the keys that match a pattern.
CREATE OR REPLACE FUNCTION keys_of(p_pattern text) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT array_agg(key) FROM limit_keys
    WHERE key = p_pattern
        OR (right(p_pattern, 1) = '*' AND starts_with(key, left(p_pattern, -1)))
$$;
