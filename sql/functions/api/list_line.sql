-- Returns the ids of the next jobs of a lane, in the order in which they will run, at most p_limit.
CREATE OR REPLACE FUNCTION list_line(p_lock text, p_limit integer) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT id FROM line_of(p_lock, p_limit) ORDER BY priority DESC, id LIMIT p_limit
$$;
