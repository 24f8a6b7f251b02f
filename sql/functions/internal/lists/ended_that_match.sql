-- Returns those of newest_ended that match the filter. The planner inlines it.
CREATE OR REPLACE FUNCTION ended_that_match(
    p_filter job_filter, p_search integer, p_before_id bigint DEFAULT NULL
) RETURNS SETOF finished_jobs
LANGUAGE sql STABLE AS $$
    SELECT * FROM newest_ended(p_filter, p_search, p_before_id) AS job
    WHERE ((p_filter).statuses IS NULL OR status = ANY ((p_filter).statuses))
        AND matches(p_filter, id, queue, task, lock, locks, queueing_lock, worker_id, batch_id,
            group_key, errors, finished_at)
$$;
