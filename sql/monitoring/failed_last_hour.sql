-- Which tasks failed in the last hour, how often, and with which error?
--
-- Looks at the last 1,000 failures.
SELECT task, failed, last_at, job_id, error
FROM inturn.recent_failures
LIMIT 50;
