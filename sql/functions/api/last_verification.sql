-- Returns what the last job of the schedule that verifies has found (docs/verify.md): when it
-- ended, how many jobs it read, and how many violations it found. No row: there is no schedule, or
-- its last job has not succeeded yet.
CREATE OR REPLACE FUNCTION last_verification()
    RETURNS TABLE (at timestamptz, jobs bigint, violations bigint)
LANGUAGE sql STABLE AS $$
    SELECT job.finished_at, (job.result ->> 'jobs')::bigint, (job.result ->> 'violations')::bigint
    FROM schedules CROSS JOIN LATERAL (
        SELECT finished_at, result FROM finished_jobs
        WHERE finished_jobs.id = schedules.last_job_id AND status = 'succeeded' LIMIT 1
    ) AS job
    WHERE schedules.task = 'builtin:inturn.builtin_tasks.verify'
    ORDER BY job.finished_at DESC LIMIT 1
$$;
