-- Returns whether list_jobs did not search all live or all ended jobs, so that it may have missed
-- some that match. The arguments are those of list_jobs.
CREATE OR REPLACE FUNCTION search_is_cut(
    p_limit         integer,
    p_id            bigint       DEFAULT NULL,
    p_statuses      job_status[] DEFAULT NULL,
    p_queue         text         DEFAULT NULL,
    p_task          text         DEFAULT NULL,
    p_lock          text         DEFAULT NULL,
    p_queueing_lock text         DEFAULT NULL,
    p_worker        uuid         DEFAULT NULL,
    p_batch         bigint       DEFAULT NULL,
    p_group         text         DEFAULT NULL,
    p_lock_prefix   text         DEFAULT NULL,
    p_error         text         DEFAULT NULL,
    p_before        timestamptz  DEFAULT NULL,
    p_before_id     bigint       DEFAULT NULL,
    p_search        integer      DEFAULT 10000,
    OUT live boolean, OUT ended boolean
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_filter job_filter := ROW(p_statuses, p_queue, p_task, p_lock, p_queueing_lock, p_worker,
        p_batch, p_group, p_lock_prefix, p_error, p_before, NULL);
BEGIN
    live := p_id IS NULL AND (candidates(
        v_filter, p_search, p_limit, greatest(p_search, p_limit), false, p_before_id)).is_cut;
    ended := p_id IS NULL AND (p_statuses IS NOT NULL
            OR num_nonnulls(p_queue, p_task, p_lock, p_queueing_lock, p_worker, p_batch, p_group,
                p_lock_prefix, p_error, p_before) > 0)
        AND more_have_ended(p_search, p_statuses, p_batch, p_before, p_before_id);
END $$;
