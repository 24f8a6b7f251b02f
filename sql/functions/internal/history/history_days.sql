-- Returns the daily partitions of the history before a day, the oldest first. At most ten, because
-- they are dropped in one transaction.
--
-- A day is left out until roll_up has counted it, but for no more than three days, so that the
-- history cannot fill a disk.
CREATE OR REPLACE FUNCTION history_days(p_before date) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(name), '{}') FROM (
        SELECT found.name
        FROM (
            SELECT relname::text AS name, to_date(right(relname, 8), 'YYYYMMDD') AS day
            FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
            WHERE inhparent = 'finished_jobs'::regclass AND relname ~ '^finished_jobs_[0-9]{8}$'
        ) AS found
        LEFT JOIN rollup_days ON rollup_days.day = found.day
        WHERE found.day < p_before
            AND (found.day < p_before - 3 OR rollup_days.counted_at >= found.day + 1)
        ORDER BY found.name
        LIMIT 10
    ) AS day
$$;
