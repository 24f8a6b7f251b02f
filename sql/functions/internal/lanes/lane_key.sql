-- Returns the advisory lock that keeps two sessions from inserting the same lane row. The session
-- that inserts the row holds it until commit. The real mutex is the lane row; this is only a
-- filter, so that claims need not wait for each other. The same name in another schema is another
-- lane.
CREATE OR REPLACE FUNCTION lane_key(p_lock text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn lane', current_schema(), p_lock), 0)
$$;
