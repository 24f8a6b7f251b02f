-- Jobs that failed for good in the last hour, counted by task and error, the most common first.
-- Errors that differ only in words with digits count as one. It looks at the last 1,000 failures.
-- Jobs that leave no history are not counted.
CREATE OR REPLACE VIEW recent_failures AS
WITH newest AS MATERIALIZED (
    SELECT id, task, lock, finished_at, errors FROM finished_jobs
    WHERE status = 'failed' AND finished_at > clock() - interval '1 hour'
    ORDER BY finished_at DESC LIMIT 1000
), worded AS (
    -- The last line of a traceback names the exception.
    SELECT id, task, lock, finished_at, left(reverse(split_part(
        reverse(rtrim(errors -> -1 ->> 'error', E' \n')), E'\n', 1)), 200) AS error
    FROM newest
)
SELECT task, count(*) AS failed, max(finished_at) AS last_at,
       (array_agg(id ORDER BY finished_at DESC, id DESC))[1] AS job_id,
       (array_agg(error ORDER BY finished_at DESC, id DESC))[1] AS error,
       min(finished_at) AS first_at, count(DISTINCT lock) AS lanes,
       array_agg(id ORDER BY id) AS job_ids
FROM worded
GROUP BY task, regexp_replace(error, '\S*\d\S*', '0', 'g')
ORDER BY count(*) DESC, max(finished_at) DESC;

COMMENT ON VIEW recent_failures IS
    'Jobs that failed in the last hour, by task and error, the most common first.';
COMMENT ON COLUMN recent_failures.task IS 'Their task.';
COMMENT ON COLUMN recent_failures.failed IS 'How many failed, of the last 1,000 failures.';
COMMENT ON COLUMN recent_failures.last_at IS 'When the last of them failed.';
COMMENT ON COLUMN recent_failures.job_id IS 'The last of them.';
COMMENT ON COLUMN recent_failures.error IS 'The last line of its error.';
COMMENT ON COLUMN recent_failures.first_at IS 'When the first of them failed.';
COMMENT ON COLUMN recent_failures.lanes IS 'How many lanes they are in.';
COMMENT ON COLUMN recent_failures.job_ids IS 'All of them.';
