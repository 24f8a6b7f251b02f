-- Counts jobs by status for each queue, task or lock (p_by), at most p_limit of them. Bounded: it
-- searches the newest p_looked live jobs, continues where an index fits (see candidates), and
-- searches the newest p_looked that have ended (see newest_ended). `more` is true in each row if
-- there may be more jobs or rows than it returns: the counts are then lower bounds. NULL in a
-- filter means any. By lock, a job counts in each of its lanes.
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
SET plan_cache_mode = force_custom_plan   -- the plan leaves out conditions that are NULL
AS $$
#variable_conflict use_column
DECLARE
    v_filter job_filter := ROW(p_statuses, p_queue, p_task, p_lock, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL);
    v_ids    bigint[];
    v_cut    boolean;
BEGIN
    IF p_by IS NULL OR p_by NOT IN ('queue', 'task', 'lock') THEN
        RAISE EXCEPTION 'p_by: give queue, task, or lock'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT found.ids, found.is_cut OR cardinality(found.ids) >= p_looked INTO v_ids, v_cut
    FROM candidates(v_filter, p_looked, p_looked, p_looked, p_by = 'lock') AS found;
    RETURN QUERY
    WITH live AS MATERIALIZED (
        SELECT queue, task, locks, status FROM look_at_live(v_ids)
    ), finished AS MATERIALIZED (
        SELECT job.queue, job.task, coalesce(job.locks, ARRAY[job.lock]), job.status
        FROM ended_that_match(v_filter, p_looked) AS job
        WHERE p_by <> 'lock' OR job.lock IS NOT NULL
    ), named AS (
        SELECT each.name, status
        FROM (TABLE live UNION ALL TABLE finished) AS looked
        CROSS JOIN LATERAL unnest(
            CASE p_by WHEN 'queue' THEN ARRAY[queue] WHEN 'task' THEN ARRAY[task] ELSE locks END
        ) AS each(name)
        WHERE (p_statuses IS NULL OR status = ANY (p_statuses))
          AND (p_by <> 'lock' OR p_lock IS NULL OR each.name = p_lock)
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
           v_cut OR more_have_ended(v_filter, p_looked)
               OR count(*) OVER () > p_limit
    FROM named GROUP BY name ORDER BY name LIMIT p_limit;
END $$;
