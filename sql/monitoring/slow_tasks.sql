-- Which tasks run the longest, and how long do their jobs wait?
--
-- Of the jobs that ended in the last hour. p95: 19 of 20 jobs took at most this long.
SELECT task, per_minute, run_p50, run_p95, wait_p50, wait_p95
FROM inturn.task_status
ORDER BY run_p95 DESC NULLS LAST
LIMIT 50;
