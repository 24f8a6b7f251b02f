-- How large is each day of the history?
SELECT relname AS name, n_live_tup AS jobs, pg_size_pretty(pg_total_relation_size(relid)) AS size
FROM pg_stat_user_tables
WHERE schemaname = 'inturn' AND relname LIKE 'finished\_jobs\_%'
ORDER BY relname DESC;
