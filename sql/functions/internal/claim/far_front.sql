-- Returns the first 2,000 free jobs in front, and the first of each group of the jobs p_seen, for a
-- claim that clears away a burst of jobs that cannot start. Locks nothing.
CREATE OR REPLACE FUNCTION far_front(p_queues text[], p_seen bigint[])
    RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_share integer := greatest(2000 / cardinality(p_queues), 20);
BEGIN
    RETURN QUERY
    SELECT job.id FROM unnest(p_queues) AS q(queue)
    CROSS JOIN LATERAL (
        SELECT jobs.id FROM jobs
        WHERE jobs.status = 'todo' AND jobs.lock IS NULL
          AND jobs.group_key IS NULL AND jobs.queue = q.queue
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT v_share
    ) AS job
    UNION ALL
    SELECT job.id FROM (
        SELECT DISTINCT jobs.queue, jobs.priority, jobs.group_key FROM jobs
        WHERE jobs.id = ANY (p_seen) AND jobs.group_key IS NOT NULL AND jobs.lock IS NULL
    ) AS seen
    CROSS JOIN LATERAL (
        SELECT jobs.id FROM jobs
        WHERE jobs.status = 'todo' AND jobs.group_key = seen.group_key
          AND (jobs.lock IS NULL)::integer = 1
          AND jobs.queue = seen.queue AND jobs.priority = seen.priority
        ORDER BY jobs.id
        LIMIT v_share
    ) AS job;
END $$;
