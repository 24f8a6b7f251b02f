-- Which jobs could run now and have been waiting the longest?
--
-- Looks at the first 1,000 jobs of each queue, without and with a lock, and at the first 1,000
-- that are due. Shows one job of each lane, the one that goes next.
WITH front AS (
    SELECT job.*
    FROM inturn.queue_status CROSS JOIN LATERAL (
        (SELECT * FROM inturn.jobs
         WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
           AND jobs.queue = queue_status.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT * FROM inturn.jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
           AND jobs.queue = queue_status.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT * FROM inturn.jobs
         WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue = queue_status.queue
         ORDER BY jobs.queue LIMIT 1000)
    ) AS job
    UNION ALL
    (SELECT * FROM inturn.jobs
     WHERE status = 'scheduled' AND scheduled_at <= inturn.clock()
     ORDER BY scheduled_at LIMIT 1000)
), next AS (
    SELECT DISTINCT ON (front.lock, CASE WHEN front.lock IS NULL THEN front.id END) front.*
    FROM front LEFT JOIN LATERAL (
        SELECT found.lock, found.job_id, found.stopped FROM inturn.lanes AS found
        WHERE found.lock = front.lock AND found.state IS NOT NULL
        LIMIT 1  -- so that no plan reads all lanes to join them
    ) AS lanes ON true
    WHERE lanes.lock IS NULL OR (lanes.job_id = front.id AND lanes.stopped IS NULL)
    ORDER BY front.lock, CASE WHEN front.lock IS NULL THEN front.id END, priority DESC, id
)
SELECT id, queue, task, lock, priority,
       inturn.clock() - coalesce(scheduled_at, created_at) AS waiting
FROM next
ORDER BY waiting DESC
LIMIT 20;
