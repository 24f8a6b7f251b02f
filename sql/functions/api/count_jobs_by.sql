-- Counts jobs by status for each queue, task or lock (p_by), at most p_limit of them. Bounded: it
-- looks at the newest p_looked live jobs (see candidates) and as many finished ones. `more` is true
-- in each row if there may be more than it looked at, or are more than it returns: the counts are
-- lower bounds. NULL in a filter means any.
--
-- It is planned again in each call, so that the plan leaves out a filter that is NULL.
CREATE OR REPLACE FUNCTION count_jobs_by(
    p_by       text,
    p_looked   integer,
    p_limit    integer,
    p_statuses job_status[] DEFAULT NULL,
    p_queue    text         DEFAULT NULL,
    p_task     text         DEFAULT NULL,
    p_lock     text         DEFAULT NULL
) RETURNS TABLE (
    name text, jobs_count bigint, todo bigint, blocked bigint, limited bigint, scheduled bigint,
    pending bigint, claimed bigint, doing bigint, succeeded bigint, failed bigint, cancelled bigint,
    aborted bigint, more boolean
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
BEGIN
    IF p_by IS NULL OR p_by NOT IN ('queue', 'task', 'lock') THEN
        RAISE EXCEPTION 'p_by: give queue, task, or lock'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_ids := candidates(p_looked, p_statuses, p_queue, p_task, p_lock, p_by = 'lock');
    RETURN QUERY
    WITH live AS MATERIALIZED (
        SELECT queue, task, lock, status
        FROM look_at_live(v_ids, p_queue, p_task, p_lock, p_by = 'lock')
    ), finished AS MATERIALIZED (
        SELECT queue, task, lock, status FROM finished_jobs
        WHERE (p_statuses IS NULL OR status = ANY (p_statuses))
          AND (p_queue IS NULL OR queue = p_queue)
          AND (p_task IS NULL OR task = p_task)
          AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
          AND (p_by <> 'lock' OR lock IS NOT NULL)
        ORDER BY id DESC LIMIT p_looked
    ), named AS (
        SELECT CASE p_by WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE lock END AS name,
               status
        FROM (TABLE live UNION ALL TABLE finished) AS looked
        WHERE p_statuses IS NULL OR status = ANY (p_statuses)
    )
    SELECT name, count(*),
           count(*) FILTER (WHERE status = 'todo'), count(*) FILTER (WHERE status = 'blocked'),
           count(*) FILTER (WHERE status = 'limited'),
           count(*) FILTER (WHERE status = 'scheduled'),
           count(*) FILTER (WHERE status = 'pending'),
           count(*) FILTER (WHERE status = 'claimed'), count(*) FILTER (WHERE status = 'doing'),
           count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'failed'),
           count(*) FILTER (WHERE status = 'cancelled'),
           count(*) FILTER (WHERE status = 'aborted'),
           cardinality(v_ids) >= p_looked OR (SELECT count(*) FROM finished) >= p_looked
               OR count(*) OVER () > p_limit
    FROM named GROUP BY name ORDER BY name LIMIT p_limit;
END $$;
