-- Returns the first jobs of each group in each queue, p_times the weight of the group, and the
-- group's index in the array. With p_free, free jobs, whose rows it locks without waiting;
-- otherwise lane tokens, without locks.
CREATE OR REPLACE FUNCTION jobs_of_groups(
    p_queues text[], p_free boolean, p_priority integer, p_groups text[], p_weights integer[],
    p_times integer
) RETURNS TABLE (id bigint, place bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_free THEN
        RETURN QUERY
        SELECT job.id, g.place
        FROM unnest(p_groups, p_weights) WITH ORDINALITY AS g(name, weight, place)
        CROSS JOIN unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id FROM jobs
            WHERE jobs.status = 'todo' AND jobs.group_key = g.name
              AND (jobs.lock IS NULL)::integer = 1
              AND jobs.queue = q.queue AND jobs.priority = p_priority
            ORDER BY jobs.id
            LIMIT p_times * g.weight
            FOR UPDATE SKIP LOCKED
        ) AS job;
    ELSE
        RETURN QUERY
        SELECT job.id, g.place
        FROM unnest(p_groups, p_weights) WITH ORDINALITY AS g(name, weight, place)
        CROSS JOIN unnest(p_queues) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT jobs.id FROM jobs
            WHERE jobs.status = 'todo' AND jobs.group_key = g.name
              AND (jobs.lock IS NULL)::integer = 0
              AND jobs.queue = q.queue AND jobs.priority = p_priority
            ORDER BY jobs.id
            LIMIT p_times * g.weight
        ) AS job;
    END IF;
END $$;
