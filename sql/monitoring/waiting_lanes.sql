-- Which lanes wait the longest, and for what?
SELECT lock, waiting AS jobs, inturn.clock() - coalesce(stopped_at, since) AS waiting,
       CASE
           WHEN state = 'held' THEN
               format('%s job %s on %s', CASE job_status WHEN 'claimed' THEN 'claimed'
                   ELSE 'running' END, job_id, coalesce(worker, 'a worker that is gone'))
           WHEN state = 'retrying' THEN format('next attempt of job %s', job_id)
           WHEN state = 'delayed' THEN format('transaction that has locked job %s', job_id)
           WHEN state = 'idle' THEN format('lane %s', lane_status.waits_for)
           WHEN stopped_until IS NOT NULL THEN format('%s until %s', state, stopped_until)
           ELSE format('%s until it is resumed', state)
       END AS waits_for,
       stopped_by, stop_reason
FROM inturn.list_lanes(1000) AS lane_status
WHERE waiting > 0 OR state <> 'held'
ORDER BY coalesce(stopped_at, since)
LIMIT 50;
