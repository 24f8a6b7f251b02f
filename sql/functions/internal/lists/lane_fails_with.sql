-- Returns whether this text occurs in the error of the job that a lane waits for: the job that has
-- halted it, or the one that waits for its retry.
CREATE OR REPLACE FUNCTION lane_fails_with(p_lock text, p_error text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(strpos(CASE
        WHEN lane.failed_job_id IS NOT NULL THEN (
            SELECT finished.errors -> -1 ->> 'error' FROM finished_jobs AS finished
            WHERE finished.id = lane.failed_job_id
                AND finished.finished_at >= lane.stopped_at - interval '1 day'
            ORDER BY finished.finished_at DESC LIMIT 1)
        ELSE (SELECT errors -> -1 ->> 'error' FROM jobs WHERE jobs.id = lane.job_id) END,
        p_error) > 0, false)
    FROM (SELECT) AS once LEFT JOIN lanes AS lane ON lane.lock = p_lock
$$;
