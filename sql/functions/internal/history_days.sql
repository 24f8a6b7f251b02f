-- Returns the daily partitions of the history before a day, the oldest first. At most ten,
-- because they are dropped in one transaction.
CREATE OR REPLACE FUNCTION history_days(p_before date) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(name), '{}') FROM (
        SELECT relname::text AS name
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'finished_jobs'::regclass
          AND relname ~ '^finished_jobs_[0-9]{8}$'
              AND to_date(right(relname, 8), 'YYYYMMDD') < p_before
        ORDER BY relname
        LIMIT 10
    ) AS day
$$;
