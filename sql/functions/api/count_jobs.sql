-- Returns how many jobs there are, live and finished. Counting stops at p_limit. NULL in a filter
-- means any.
--
-- It is planned again in each call, so that the plan leaves out a filter that is NULL.
CREATE OR REPLACE FUNCTION count_jobs(
    p_limit    integer,
    p_statuses job_status[] DEFAULT NULL,
    p_queue    text         DEFAULT NULL,
    p_task     text         DEFAULT NULL,
    p_lock     text         DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM all_jobs
            WHERE (p_statuses IS NULL OR status = ANY (p_statuses))
              AND (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock)
            LIMIT p_limit
        ) AS counted
    );
END $$;
