-- Returns the queues that have a job to start, for a worker that serves all queues. It takes three
-- index probes per queue, however many jobs there are.
CREATE OR REPLACE FUNCTION ready_queues() RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_result text[];
BEGIN
    WITH RECURSIVE ready(queue) AS (
        SELECT least(
            (SELECT queue::text FROM jobs
             WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
             ORDER BY jobs.queue LIMIT 1),
            (SELECT queue::text FROM jobs
             WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
             ORDER BY jobs.queue LIMIT 1),
            (SELECT queue::text FROM jobs
             WHERE status = 'todo' AND group_key IS NOT NULL
             ORDER BY jobs.queue LIMIT 1))
        UNION ALL
        SELECT least(
            (SELECT queue::text FROM jobs
             WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
               AND jobs.queue > ready.queue
             ORDER BY jobs.queue LIMIT 1),
            (SELECT queue::text FROM jobs
             WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
               AND jobs.queue > ready.queue
             ORDER BY jobs.queue LIMIT 1),
            (SELECT queue::text FROM jobs
             WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue > ready.queue
             ORDER BY jobs.queue LIMIT 1))
        FROM ready WHERE ready.queue IS NOT NULL
    )
    SELECT coalesce(array_agg(queue), '{}') INTO v_result FROM ready WHERE queue IS NOT NULL;
    RETURN v_result;
END $$;
