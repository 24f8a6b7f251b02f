-- The advisory lock that keeps two from inserting the same lane row: who inserts one has it until commit. A filter only,
-- so that claims need not wait for each other: the lane row is the mutex.
CREATE OR REPLACE FUNCTION lane_key(p_lock text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended('inturn lane ' || p_lock, 0)
$$;
