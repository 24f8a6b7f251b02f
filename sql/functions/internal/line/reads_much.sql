-- Whether a look at the fronts of as many lanes has read much since entries_read() returned p_read.
-- An open snapshot keeps the entries of what has run at the front.
CREATE OR REPLACE FUNCTION reads_much(p_read bigint, p_lanes integer) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT entries_read() - p_read > 50 * p_lanes
$$;
