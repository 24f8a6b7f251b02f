-- What is running now, for how long, and on which worker?
SELECT job.id, job.task, job.queue, job.lock, job.attempts,
       inturn.clock() - job.claimed_at AS running, job.timeout,
       job.worker, coalesce(worker.state, 'gone') AS worker_state
FROM inturn.claimed_jobs AS job
LEFT JOIN inturn.worker_status AS worker ON worker.id = job.worker_id
WHERE job.status = 'doing'
ORDER BY running DESC
LIMIT 100;
