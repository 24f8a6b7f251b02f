-- Live jobs that may be killing their workers: more than one worker died while it had the job, or
-- one worker reported that it failed with it. Only the first jobs of each kind are searched,
-- because a job that comes back from a dead worker goes first.
CREATE OR REPLACE VIEW suspect_jobs AS
WITH front AS MATERIALIZED (
    (SELECT id, queue, task, lock, errors FROM jobs WHERE status = 'doing' ORDER BY worker_id
        LIMIT 10000)
    UNION ALL
    (SELECT id, queue, task, lock, errors FROM jobs WHERE status = 'scheduled' ORDER BY scheduled_at
        LIMIT 10000)
    UNION ALL
    SELECT job.* FROM queue_status AS known CROSS JOIN LATERAL (
        (SELECT id, queue, task, lock, errors FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
           AND jobs.queue = known.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT id, queue, task, lock, errors FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
           AND jobs.queue = known.queue
         ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT id, queue, task, lock, errors FROM jobs
         WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue = known.queue
         ORDER BY jobs.queue LIMIT 1000)
    ) AS job
), counted AS (
    SELECT id, queue, task, lock, errors @> '[{"crashed": true}]' AS crashed,
           (SELECT count(*) FROM jsonb_array_elements(errors) AS each
               WHERE each ?| '{lost,crashed}') AS deaths
    FROM front WHERE errors <> '[]'
)
SELECT id, queue::text, task::text, lock::text, deaths FROM counted WHERE crashed OR deaths > 1;

COMMENT ON VIEW suspect_jobs IS 'Jobs that may be killing their workers.';
COMMENT ON COLUMN suspect_jobs.id IS 'The job.';
COMMENT ON COLUMN suspect_jobs.queue IS 'Its queue.';
COMMENT ON COLUMN suspect_jobs.task IS 'Its task.';
COMMENT ON COLUMN suspect_jobs.lock IS 'Its lock; NULL: none.';
COMMENT ON COLUMN suspect_jobs.deaths IS
    'How many of its workers died, as far as its errors go back.';
