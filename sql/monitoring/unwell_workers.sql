-- Which workers are silent or blocked, since when, and how many jobs do they have?
SELECT name, hostname, pid, state, claimed, doing,
       inturn.clock() - CASE state WHEN 'late' THEN heartbeat_at ELSE loop_turned_at END AS since
FROM inturn.worker_status
WHERE state IN ('late', 'blocked')
ORDER BY since DESC;
