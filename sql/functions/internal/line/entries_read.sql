-- Returns how many entries of the indexes of ready jobs and lanes this transaction has read, dead
-- ones included.
CREATE OR REPLACE FUNCTION entries_read() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT pg_stat_get_xact_tuples_returned('jobs_free'::regclass)
        + pg_stat_get_xact_tuples_returned('jobs_heads'::regclass)
        + pg_stat_get_xact_tuples_returned('jobs_lane'::regclass)
$$;
