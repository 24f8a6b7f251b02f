-- Returns how many of the best free jobs are in each of these queues, so that a claim of many
-- queues locks no more than it takes.
CREATE OR REPLACE FUNCTION free_shares(p_queues text[], p_limit integer) RETURNS integer[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        WITH best AS (
            SELECT q.place
            FROM unnest(p_queues) WITH ORDINALITY AS q(queue, place)
            CROSS JOIN LATERAL (
                SELECT jobs.id, jobs.priority FROM jobs
                WHERE jobs.status = 'todo' AND jobs.lock IS NULL AND jobs.queue = q.queue
                ORDER BY jobs.priority DESC, jobs.id
                LIMIT p_limit
            ) AS f
            ORDER BY f.priority DESC, f.id
            LIMIT p_limit
        ), counted AS (
            SELECT place, count(*)::integer AS share FROM best GROUP BY place
        )
        SELECT array_agg(coalesce(counted.share, 0) ORDER BY q.place)
        FROM unnest(p_queues) WITH ORDINALITY AS q(queue, place) LEFT JOIN counted USING (place)
    );
END $$;
