-- What is running now, for how long, and on which worker?
SELECT jobs.id, jobs.task, jobs.queue, jobs.lock, jobs.attempts,
       inturn.clock() - jobs.started_at AS running, jobs.timeout,
       worker.name AS worker, coalesce(worker.state, 'gone') AS worker_state
FROM inturn.jobs
LEFT JOIN inturn.worker_status AS worker ON worker.id = jobs.worker_id
WHERE jobs.status = 'doing'
ORDER BY running DESC
LIMIT 100;
