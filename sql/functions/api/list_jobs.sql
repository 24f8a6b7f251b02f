-- Returns jobs, live and finished, the newest first, at most p_limit. NULL in a filter means any.
-- The status is what people see (see live_jobs). With any filter but ids, it searches the newest
-- p_search live jobs, continues where an index fits (see candidates), and searches the newest
-- p_search jobs that have ended (see newest_ended). search_is_cut tells whether it may have missed
-- some that match.
--
-- To get the next page, pass the id of the last job as p_before_id.
CREATE OR REPLACE FUNCTION list_jobs(
    p_limit     integer,
    p_filter    job_filter DEFAULT NULL,   -- see jobs_where
    p_before_id bigint     DEFAULT NULL,
    p_search    integer    DEFAULT 10000
) RETURNS SETOF all_jobs
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan   -- the plan leaves out conditions that are NULL
AS $$
DECLARE
    v_statuses job_status[] := (p_filter).statuses;
    v_ids      bigint[];
    v_ended    bigint[];   -- those that match, if they were searched
    v_from     timestamptz;
    v_until    timestamptz;
    v_finished boolean := v_statuses IS NULL
        OR v_statuses && '{succeeded,failed,cancelled,aborted}';
BEGIN
    v_ids := CASE
        WHEN (p_filter).ids IS NOT NULL THEN (p_filter).ids
        ELSE (candidates(
            p_filter, p_search, p_limit, greatest(p_search, p_limit), false, p_before_id)).ids END;
    IF v_finished AND (p_filter).ids IS NULL AND NOT p_filter IS NULL THEN
        SELECT coalesce(array_agg(found.id), '{}'), min(found.finished_at), max(found.finished_at)
        INTO v_ended, v_from, v_until
        FROM (
            SELECT job.id, job.finished_at
            FROM ended_that_match(p_filter, p_search, p_before_id) AS job
            ORDER BY job.id DESC LIMIT p_limit
        ) AS found;
    END IF;
    -- The planner drops the half without such jobs, and the second half drops the other days.
    RETURN QUERY
    (SELECT * FROM all_jobs AS job
     WHERE job.finished_at IS NULL AND job.id = ANY (v_ids)
         AND (p_before_id IS NULL OR job.id < p_before_id)
         AND (v_statuses IS NULL OR job.status = ANY (v_statuses))
         AND matches(p_filter, job.id, job.queue, job.task, job.lock, job.locks,
             job.queueing_lock, job.worker_id, job.batch_id, job.group_key, job.errors,
             job.created_at)
     ORDER BY job.id DESC LIMIT p_limit)
    UNION ALL
    (SELECT * FROM all_jobs AS job
     WHERE job.finished_at IS NOT NULL AND v_finished
         AND (p_before_id IS NULL OR job.id < p_before_id)
         AND (v_ended IS NULL
             OR job.id = ANY (v_ended) AND job.finished_at BETWEEN v_from AND v_until)
         AND (v_statuses IS NULL OR job.status = ANY (v_statuses))
         AND matches(p_filter, job.id, job.queue, job.task, job.lock, job.locks,
             job.queueing_lock, job.worker_id, job.batch_id, job.group_key, job.errors,
             job.finished_at)
     ORDER BY job.id DESC LIMIT p_limit)
    ORDER BY id DESC LIMIT p_limit;
END $$;
