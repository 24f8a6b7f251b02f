-- How many jobs ended in the last hour, in each five minutes, and how fast were they?
--
-- Jobs that leave no history are not counted. The times may be off by a factor of 1.41.
SELECT at, succeeded, failed, cancelled + aborted AS cancelled, wait_p50, wait_p95, run_p50, run_p95
FROM inturn.measure_history(inturn.clock() - interval '1 hour', p_minutes => 5)
ORDER BY at DESC;
