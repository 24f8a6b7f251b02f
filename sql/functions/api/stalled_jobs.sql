-- Returns running jobs whose worker is gone or has been silent for longer than p_silent. With
-- p_running, returns the jobs that have been running for longer than that instead. At most p_limit.
-- NULL in a filter means any.
CREATE OR REPLACE FUNCTION stalled_jobs(
    p_silent  interval,
    p_running interval,
    p_limit   integer,
    p_queue   text DEFAULT NULL,
    p_task    text DEFAULT NULL
) RETURNS SETOF jobs
LANGUAGE sql STABLE AS $$
    SELECT job.*
    FROM (SELECT * FROM jobs WHERE status = 'doing' OFFSET 0) AS job   -- not the whole backlog
    LEFT JOIN workers AS worker ON worker.id = job.worker_id
    WHERE CASE WHEN p_running IS NULL
               THEN worker.id IS NULL OR worker.heartbeat_at < clock() - p_silent
               ELSE job.started_at < clock() - p_running END
      AND (p_queue IS NULL OR job.queue = p_queue)
      AND (p_task IS NULL OR job.task = p_task)
    ORDER BY job.id LIMIT p_limit
$$;
