-- How many jobs ended in the last hour, in each five minutes, and how fast were they?
--
-- Jobs that were configured to leave no history are not counted.
SELECT to_timestamp(floor(extract(epoch FROM finished_at) / 300) * 300) AS at,
       count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) FILTER (WHERE status IN ('cancelled', 'aborted')) AS cancelled,
       percentile_cont(0.5) WITHIN GROUP (
           ORDER BY started_at - coalesce(scheduled_at, created_at)) AS median_wait,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY finished_at - started_at) AS median_run
FROM inturn.finished_jobs
WHERE finished_at > inturn.clock() - interval '1 hour'
GROUP BY at
ORDER BY at DESC;
