-- Returns the queues that have a job to start, for a worker that serves all queues. Takes one index
-- probe per queue, however many jobs there are. Pass p_groups = false to skip jobs with a group if
-- you know that none waits.
CREATE OR REPLACE FUNCTION ready_queues(p_groups boolean DEFAULT true) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_result text[];
BEGIN
    WITH RECURSIVE free(queue) AS (
        (SELECT queue FROM jobs WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
         ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.queue FROM jobs
                WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
                    AND jobs.queue > free.queue
                ORDER BY jobs.queue LIMIT 1)
        FROM free WHERE free.queue IS NOT NULL
    ), heads(queue) AS (
        (SELECT queue FROM jobs WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
         ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.queue FROM jobs
                WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
                    AND jobs.queue > heads.queue
                ORDER BY jobs.queue LIMIT 1)
        FROM heads WHERE heads.queue IS NOT NULL
    )
    SELECT coalesce(array_agg(queue::text), '{}') INTO v_result
    FROM (SELECT queue FROM free UNION SELECT queue FROM heads) AS ready
    WHERE queue IS NOT NULL;
    IF NOT p_groups THEN
        RETURN v_result;
    END IF;
    RETURN ARRAY(
        WITH RECURSIVE turns(queue) AS (
            (SELECT queue FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
             ORDER BY queue LIMIT 1)
            UNION ALL
            SELECT (SELECT jobs.queue FROM jobs
                    WHERE status = 'todo' AND group_key IS NOT NULL AND jobs.queue > turns.queue
                    ORDER BY jobs.queue LIMIT 1)
            FROM turns WHERE turns.queue IS NOT NULL
        )
        SELECT queue::text FROM turns WHERE queue IS NOT NULL UNION SELECT unnest(v_result));
END $$;
