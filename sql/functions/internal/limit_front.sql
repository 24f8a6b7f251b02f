-- Sets more free jobs `limited`, among the first 2,000 in front and among the first of each group
-- that has one of the jobs p_seen, whose keys have no slot or token left, or are locked (see
-- take_slots). So a few claims get past a burst of such jobs. It locks no other jobs.
CREATE OR REPLACE FUNCTION limit_front(p_queues text[], p_keys text[], p_seen bigint[])
    RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_share integer := greatest(2000 / cardinality(p_queues), 20);
    v_ids   bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT job.id
        FROM unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.limit_key FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT v_share
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
            LIMIT v_share
        ) AS job
        WHERE coalesce(job.limit_key IN (SELECT unnest(p_keys)), false));
    v_ids := ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY (v_ids) AND status = 'todo' AND limit_key IN (SELECT unnest(p_keys))
        FOR UPDATE SKIP LOCKED);
    UPDATE jobs SET status = 'limited' WHERE jobs.id = ANY (v_ids);
END $$;
