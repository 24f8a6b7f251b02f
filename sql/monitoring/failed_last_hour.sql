-- Which tasks failed in the last hour, how often, and with which error?
SELECT task, count(*) AS failed, max(finished_at) AS last_at, max(id) AS last_job,
       -- The last line of a traceback names the exception.
       left(split_part(rtrim(errors -> -1 ->> 'error', E'\n'), E'\n', -1), 200) AS error
FROM inturn.finished_jobs
WHERE status = 'failed' AND finished_at > inturn.clock() - interval '1 hour'
GROUP BY task, error
ORDER BY failed DESC, last_at DESC
LIMIT 50;
