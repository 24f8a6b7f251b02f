-- The advisory lock that keeps two from inserting the same lane row: who inserts one has it until commit. A filter only,
-- so that claims need not wait for each other: the lane row is the mutex. Another schema's lane of that name is another lane.
CREATE OR REPLACE FUNCTION lane_key(p_lock text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inturn lane', current_schema(), p_lock), 0)
$$;
