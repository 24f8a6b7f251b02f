-- Returns whether there are more ended jobs than list_jobs searches for a filter, so that it may
-- not have found all. The arguments are those of list_jobs.
CREATE OR REPLACE FUNCTION search_is_cut(
    p_search    integer,
    p_statuses  job_status[] DEFAULT NULL,
    p_before    timestamptz  DEFAULT NULL,
    p_before_id bigint       DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN (p_statuses IS NULL OR p_statuses && '{succeeded,failed,cancelled,aborted}')
        AND (SELECT count(*) FROM newest_ended(p_search + 1, p_statuses, p_before, p_before_id))
            > p_search;
END $$;
