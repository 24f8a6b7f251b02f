-- Returns the groups from p_from on, and before p_before, that have jobs of this kind and priority
-- in these queues, in order, at most p_limit. With p_free, free jobs count, otherwise lane tokens.
-- Takes one probe per group and queue, however many jobs wait.
CREATE OR REPLACE FUNCTION next_groups(
    p_queues text[], p_free boolean, p_priority integer, p_from text, p_before text,
    p_limit integer
) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE found(name) AS (
            SELECT (
                SELECT min(first.name)
                FROM unnest(p_queues) AS q(queue)
                CROSS JOIN LATERAL (
                    SELECT jobs.group_key::text AS name FROM jobs
                    WHERE jobs.status = 'todo' AND jobs.group_key IS NOT NULL
                      AND jobs.queue = q.queue AND (jobs.lock IS NULL)::integer = p_free::integer
                      AND jobs.priority = p_priority AND jobs.group_key >= p_from
                    ORDER BY jobs.group_key LIMIT 1
                ) AS first
            )
            UNION ALL
            SELECT (
                SELECT min(first.name)
                FROM unnest(p_queues) AS q(queue)
                CROSS JOIN LATERAL (
                    SELECT jobs.group_key::text AS name FROM jobs
                    WHERE jobs.status = 'todo' AND jobs.group_key IS NOT NULL
                      AND jobs.queue = q.queue AND (jobs.lock IS NULL)::integer = p_free::integer
                      AND jobs.priority = p_priority AND jobs.group_key > found.name
                    ORDER BY jobs.group_key LIMIT 1
                ) AS first
            )
            FROM found WHERE found.name < p_before OR p_before IS NULL AND found.name IS NOT NULL
        )
        SELECT found.name FROM found
        WHERE found.name < p_before OR p_before IS NULL AND found.name IS NOT NULL
        LIMIT p_limit
    );
END $$;
