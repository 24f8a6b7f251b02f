-- Returns whether list_jobs did not search all live or all ended jobs, so that it may have missed
-- some that match. The arguments are those of list_jobs.
CREATE OR REPLACE FUNCTION search_is_cut(
    p_limit     integer,
    p_filter    job_filter DEFAULT NULL,   -- see jobs_where
    p_before_id bigint     DEFAULT NULL,
    p_search    integer    DEFAULT 10000,
    OUT live boolean, OUT ended boolean
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    live := (p_filter).ids IS NULL AND (candidates(
        p_filter, p_search, p_limit, greatest(p_search, p_limit), false, p_before_id)).is_cut;
    ended := (p_filter).ids IS NULL AND NOT p_filter IS NULL
        AND more_have_ended(p_filter, p_search, p_before_id);
END $$;
