-- Returns whether a worker that has just started must do upkeep at once: a worker without a row has
-- left jobs behind, or the history lacks a partition for today or tomorrow. Otherwise its first
-- round can wait for an interval. It scans the workers that run jobs, not their jobs.
CREATE OR REPLACE FUNCTION upkeep_is_due() RETURNS boolean
LANGUAGE sql STABLE
SET timezone = 'UTC'
AS $$
    WITH RECURSIVE owner(worker_id) AS (
        (SELECT worker_id FROM jobs WHERE status = 'doing' ORDER BY worker_id LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.worker_id FROM jobs
                WHERE status = 'doing' AND jobs.worker_id > owner.worker_id ORDER BY jobs.worker_id
                LIMIT 1)
        FROM owner WHERE owner.worker_id IS NOT NULL
    )
    SELECT EXISTS (
               SELECT FROM owner
               WHERE worker_id IS NOT NULL
                 AND NOT EXISTS (SELECT FROM workers WHERE id = owner.worker_id))
        OR to_regclass('finished_jobs_' || to_char(clock()::date, 'YYYYMMDD')) IS NULL
        OR to_regclass('finished_jobs_' || to_char(clock()::date + 1, 'YYYYMMDD')) IS NULL
$$;
