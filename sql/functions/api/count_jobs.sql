-- Returns how many jobs there are, live and finished. NULL in a filter means any. Counting stops at
-- p_limit, and looks at about p_limit live jobs if you ask for a status (see candidates). With a
-- filter, it searches the newest p_limit jobs that have ended (see newest_ended). `more` is true if
-- there may be more.
--
-- It is planned again in each call, so that the plan leaves out a filter that is NULL.
CREATE OR REPLACE FUNCTION count_jobs(
    p_limit    integer,
    p_statuses job_status[] DEFAULT NULL,
    p_queue    text         DEFAULT NULL,
    p_task     text         DEFAULT NULL,
    p_lock     text         DEFAULT NULL,
    p_batch    bigint       DEFAULT NULL,
    p_group    text         DEFAULT NULL,
    p_lock_prefix text      DEFAULT NULL,
    p_error    text         DEFAULT NULL,
    p_before   timestamptz  DEFAULT NULL
) RETURNS TABLE (jobs_count bigint, more boolean)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_ids      bigint[] := '{}';
    v_live     bigint := 0;
    v_finished bigint := 0;
BEGIN
    IF num_nonnulls(p_lock_prefix, p_error, p_before) > 0 THEN
        RETURN QUERY SELECT count(*), count(*) >= p_limit
        FROM list_jobs(p_limit, NULL, p_statuses, p_queue, p_task, p_lock, NULL, NULL, p_batch,
            p_group, p_lock_prefix, p_error, p_before);
        RETURN;
    END IF;
    IF p_statuses IS NULL THEN
        SELECT count(*) INTO v_live FROM (
            SELECT FROM jobs
            WHERE (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
              AND (p_group IS NULL OR group_key = p_group)
              AND (p_batch IS NULL OR batch_id = p_batch)
            LIMIT p_limit
        ) AS counted;
    ELSIF p_statuses && '{todo,blocked,limited,scheduled,pending,claimed,doing}' THEN
        v_ids := candidates(p_limit, p_statuses, p_queue, p_task, p_lock,
            p_group => p_group, p_batch => p_batch);
        SELECT least(count(*), p_limit) INTO v_live
        FROM look_at_live(v_ids, p_queue, p_task, p_lock, p_group => p_group)
        WHERE status = ANY (p_statuses);
    END IF;
    IF p_statuses IS NULL OR p_statuses && '{succeeded,failed,cancelled,aborted}' THEN
        SELECT count(*) INTO v_finished FROM (
            SELECT FROM newest_ended(p_limit, p_statuses, NULL, NULL)
            WHERE p_batch IS NULL
              AND (p_statuses IS NULL OR status = ANY (p_statuses))
              AND (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
              AND (p_group IS NULL OR group_key = p_group)
            UNION ALL
            SELECT FROM finished_jobs
            WHERE p_batch IS NOT NULL AND batch_id = p_batch AND batch_id IS NOT NULL
              AND (p_statuses IS NULL OR status = ANY (p_statuses))
              AND (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
              AND (p_group IS NULL OR group_key = p_group)
            LIMIT p_limit - v_live
        ) AS counted;
    END IF;
    RETURN QUERY
    SELECT v_live + v_finished,
           cardinality(v_ids) >= p_limit OR v_live + v_finished >= p_limit
               OR p_batch IS NULL AND search_is_cut(p_limit, p_statuses);
END $$;
