-- Returns the bytes of the history and of the whole database, how many days have a table, and for
-- how long a worker keeps ended jobs, with its name. Of several workers, the one that keeps them
-- shortest decides; those without the option keep what others are set to keep.
CREATE OR REPLACE FUNCTION measure_history_size()
RETURNS TABLE (history bigint, database bigint, days bigint, keep_history float8, worker text)
LANGUAGE sql STABLE AS $$
    SELECT stored.*, told.keep_history, told.name FROM (
        SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint,
            pg_database_size(current_database()), count(*) FILTER (WHERE relname ~ '[0-9]$')
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'finished_jobs'::regclass
            -- The sizes of tables have those of their indexes. Empty tables are mostly of days to
            -- come.
            AND relkind = 'r' AND pg_relation_size(inhrelid) > 0
    ) AS stored
    LEFT JOIN LATERAL (
        SELECT workers.keep_history, workers.name
        FROM workers JOIN worker_status USING (id)
        WHERE workers.keep_history IS NOT NULL AND worker_status.state <> 'late'
        ORDER BY workers.keep_history LIMIT 1
    ) AS told ON true
$$;
