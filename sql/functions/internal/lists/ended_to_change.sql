-- Returns the jobs that have ended and match the filter of a bulk. The planner inlines it, so the
-- caller's order and limit decide how much of the history is read.
CREATE OR REPLACE FUNCTION ended_to_change(p_filter job_filter) RETURNS SETOF finished_jobs
LANGUAGE sql STABLE AS $$
    SELECT * FROM finished_jobs AS job
    WHERE ((p_filter).statuses IS NULL
            OR (p_filter).statuses && '{succeeded,failed,cancelled,aborted}'
                AND job.status = ANY ((p_filter).statuses))
        AND matches(p_filter, job.id, job.queue, job.task, job.lock, job.locks,
            job.queueing_lock, job.worker_id, job.batch_id, job.group_key, job.errors,
            job.finished_at)
$$;
