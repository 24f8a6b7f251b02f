-- Returns the gates of the keys that match a pattern.
CREATE OR REPLACE FUNCTION gates_of(p_pattern text) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT array_agg(key) FROM gates
    WHERE key = limit_gate(p_pattern)
        OR (right(p_pattern, 1) = '*' AND starts_with(key, limit_gate(left(p_pattern, -1))))
$$;
