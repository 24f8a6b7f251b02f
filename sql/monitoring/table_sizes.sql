-- How large are the tables of live jobs, and does vacuum keep up with them?
SELECT relname AS name, n_live_tup AS live_rows, n_dead_tup AS dead_rows,
       pg_size_pretty(pg_relation_size(relid)) AS rows_size,
       pg_size_pretty(pg_indexes_size(relid)) AS indexes_size,
       last_autovacuum
FROM pg_stat_user_tables
WHERE schemaname = 'inturn' AND relname NOT LIKE 'finished\_jobs%'
ORDER BY pg_total_relation_size(relid) DESC;
