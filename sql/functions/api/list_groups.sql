-- Returns the weights that are set, and the groups that have running jobs or jobs that could start
-- now, at most p_limit of each kind: how many jobs start in a turn, how many could start, counted
-- up to 1,000, and how many run. A pattern has no counts. Bounded: it looks at 100 priorities of
-- each queue and at 10,000 running jobs.
CREATE OR REPLACE FUNCTION list_groups(p_limit integer) RETURNS TABLE (
    name text, weight integer, waiting bigint, running bigint
)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE level(queue, free, priority, number) AS (
        SELECT q.queue, kind.free, 2147483648, 0
        FROM unnest(ready_queues()) AS q(queue), (VALUES (true), (false)) AS kind(free)
        UNION ALL
        SELECT level.queue, level.free, (
            SELECT jobs.priority::bigint FROM jobs
            WHERE jobs.status = 'todo' AND jobs.group_key IS NOT NULL
              AND jobs.queue = level.queue AND (jobs.lock IS NULL)::integer = level.free::integer
              AND jobs.priority < level.priority
            ORDER BY jobs.priority DESC LIMIT 1), level.number + 1
        FROM level WHERE level.priority IS NOT NULL AND level.number < 100
    ), found AS MATERIALIZED (
        SELECT level.*, each.name
        FROM level CROSS JOIN LATERAL unnest(next_groups(
            ARRAY[level.queue], level.free, level.priority::integer, '', NULL, p_limit)
        ) AS each(name)
        WHERE level.number > 0 AND level.priority IS NOT NULL
        LIMIT p_limit
    ), waiting AS (
        SELECT found.name, least(sum(counted.jobs), 1000)::bigint AS jobs
        FROM found CROSS JOIN LATERAL (
            SELECT count(*) AS jobs FROM (
                SELECT FROM jobs
                WHERE jobs.status = 'todo' AND jobs.group_key = found.name
                  AND jobs.queue = found.queue AND jobs.priority = found.priority
                  AND (jobs.lock IS NULL)::integer = found.free::integer
                ORDER BY jobs.id LIMIT 1000
            ) AS job
        ) AS counted
        GROUP BY found.name
    ), running AS (
        SELECT group_key::text AS name, count(*) AS jobs FROM (
            SELECT group_key FROM jobs WHERE status = 'doing' ORDER BY worker_id LIMIT 10000
        ) AS job WHERE group_key IS NOT NULL GROUP BY group_key ORDER BY group_key LIMIT p_limit
    ), known AS (
        SELECT waiting.name FROM waiting UNION SELECT running.name FROM running
        UNION (SELECT pattern FROM groups ORDER BY pattern LIMIT p_limit)
    )
    SELECT known.name, coalesce(groups.weight, (group_weights(ARRAY[known.name]))[1]),
        CASE WHEN right(known.name, 1) <> '*' THEN coalesce(waiting.jobs, 0) END,
        CASE WHEN right(known.name, 1) <> '*' THEN coalesce(running.jobs, 0) END
    FROM known
    LEFT JOIN groups ON groups.pattern = known.name
    LEFT JOIN waiting ON waiting.name = known.name
    LEFT JOIN running ON running.name = known.name
    ORDER BY known.name COLLATE "C"
$$;
