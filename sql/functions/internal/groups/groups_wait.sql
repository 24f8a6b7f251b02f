-- Returns whether a job with a group could start in one of these queues.
CREATE OR REPLACE FUNCTION groups_wait(p_queues text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(p_queues) AS q(queue)
        WHERE (SELECT true FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
               AND jobs.queue = q.queue ORDER BY jobs.queue LIMIT 1));
END $$;
