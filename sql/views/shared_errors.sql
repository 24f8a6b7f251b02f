-- Errors that several lanes or jobs now have in common, the most common first: of the lanes that
-- they have halted, and of the jobs that wait for a retry. Errors that differ only in words with
-- digits count as one. Bounded: it looks at the 1,000 lanes halted first, and at the first 1,000
-- retries among the 10,000 jobs that are due next.
CREATE OR REPLACE VIEW shared_errors AS
WITH halted AS MATERIALIZED (
    SELECT failed.id, failed.task, lane.lock, failed.errors
    FROM (SELECT lock, since, failed_job_id FROM lanes WHERE stopped = 'halted'
          ORDER BY stopped_at LIMIT 1000) AS lane
    CROSS JOIN LATERAL (
        -- The time keeps this from reading every day of the history. It is when the job failed; the
        -- lane may have been paused long before.
        SELECT id, task, errors FROM finished_jobs
        WHERE id = lane.failed_job_id
            AND finished_at >= lane.since - interval '1 day'
            AND finished_at <= lane.since + interval '1 day'
        ORDER BY finished_at DESC LIMIT 1
    ) AS failed
), retrying AS MATERIALIZED (
    SELECT id, task, lock, errors FROM (
        SELECT id, task, lock, errors, was_attempted FROM jobs WHERE status = 'scheduled'
        ORDER BY scheduled_at LIMIT 10000
    ) AS later
    WHERE was_attempted LIMIT 1000
), worded AS (
    -- The last line of a traceback names the exception.
    SELECT id, task, lock, is_halted, left(reverse(split_part(
        reverse(rtrim(errors -> -1 ->> 'error', E' \n')), E'\n', 1)), 200) AS error
    FROM (
        SELECT id, task, lock, errors, true AS is_halted FROM halted
        UNION ALL SELECT id, task, lock, errors, false FROM retrying
    ) AS failing
)
SELECT count(*) FILTER (WHERE is_halted) AS halted, count(*) FILTER (WHERE NOT is_halted)
           AS retrying,
       (array_agg(id ORDER BY id))[1] AS job_id, (array_agg(task ORDER BY id))[1] AS task,
       (array_agg(lock ORDER BY id))[1] AS lock, (array_agg(error ORDER BY id))[1] AS error
FROM worded WHERE error IS NOT NULL
GROUP BY regexp_replace(error, '\S*\d\S*', '0', 'g') HAVING count(*) > 1
ORDER BY count(*) DESC, min(id);

COMMENT ON VIEW shared_errors IS
    'Errors that several lanes or jobs now have in common, the most common first.';
COMMENT ON COLUMN shared_errors.halted IS 'How many lanes the error has halted.';
COMMENT ON COLUMN shared_errors.retrying IS 'How many jobs wait for a retry after this error.';
COMMENT ON COLUMN shared_errors.job_id IS 'The first of these jobs.';
COMMENT ON COLUMN shared_errors.task IS 'Its task.';
COMMENT ON COLUMN shared_errors.lock IS 'Its lock; NULL: none.';
COMMENT ON COLUMN shared_errors.error IS 'The last line of its error.';
