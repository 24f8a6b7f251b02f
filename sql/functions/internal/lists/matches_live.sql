-- Returns whether a live job matches a filter, apart from its status (see matches). The planner
-- inlines it.
CREATE OR REPLACE FUNCTION matches_live(p_filter job_filter, p_job jobs) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT matches(p_filter, p_job.id, p_job.queue, p_job.task, p_job.lock, p_job.locks,
        p_job.queueing_lock, p_job.worker_id, p_job.batch_id, p_job.group_key, p_job.errors,
        p_job.created_at)
$$;
