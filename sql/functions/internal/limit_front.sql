-- Sets more free jobs `limited`, among the first p_window of each queue, whose keys have no slot or
-- token left, and among the first of each group that has one of the jobs p_seen. So a few claims
-- get past a burst of such jobs. The caller has locked the keys.
CREATE OR REPLACE FUNCTION limit_front(p_queues text[], p_keys text[], p_window integer,
    p_seen bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH front AS MATERIALIZED (
        SELECT job.id
        FROM unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.limit_key FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT p_window
            FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE coalesce(job.limit_key IN (SELECT unnest(p_keys)), false)
        UNION ALL
        SELECT job.id
        FROM (
            SELECT DISTINCT queue, priority, group_key FROM jobs
            WHERE id = ANY (p_seen) AND group_key IS NOT NULL AND lock IS NULL
        ) AS seen
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.limit_key FROM jobs
            WHERE jobs.status = 'todo' AND jobs.group_key = seen.group_key
              AND (jobs.lock IS NULL)::integer = 1
              AND jobs.queue = seen.queue AND jobs.priority = seen.priority
            ORDER BY jobs.id
            LIMIT p_window
            FOR UPDATE SKIP LOCKED
        ) AS job
        WHERE coalesce(job.limit_key IN (SELECT unnest(p_keys)), false)
    )
    UPDATE jobs SET status = 'limited' WHERE jobs.id = ANY (ARRAY(SELECT front.id FROM front));
END $$;
