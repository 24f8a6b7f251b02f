-- Who blocks? Which transactions have been open the longest, and which sessions wait for them?
SELECT pid, application, state, age,
       ARRAY(SELECT waiting.pid FROM pg_stat_activity AS waiting
             WHERE open.pid = ANY (pg_blocking_pids(waiting.pid))) AS blocks
FROM inturn.open_transactions AS open
ORDER BY age DESC
LIMIT 20;
