-- Returns how many jobs without a group go before a job that waits for a slot, and which task most
-- of them have: the remedy for a flood of one task is not more slots. If a thousand are of another
-- task, it names the command that moves that task behind this job. It looks at the first 10,000
-- with a lane and 10,000 without, and skips those that a claim has found behind others of their
-- lane.
CREATE OR REPLACE FUNCTION explain_line(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    WITH ahead AS MATERIALIZED (
        SELECT task FROM (
            (SELECT task, priority, id FROM jobs
             WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
               AND queue = p_job.queue AND priority >= p_job.priority
             ORDER BY priority DESC, id LIMIT 10000)
            UNION ALL
            (SELECT task, priority, id FROM jobs
             WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
               AND queue = p_job.queue AND priority >= p_job.priority
             ORDER BY priority DESC, id LIMIT 10000)
        ) AS first
        WHERE priority > p_job.priority OR id < p_job.id
    ), line AS (
        SELECT count(*) AS jobs, mode() WITHIN GROUP (ORDER BY task) AS task FROM ahead
    ), counted AS (
        SELECT jobs, task, (SELECT count(*) FROM ahead WHERE ahead.task = line.task) AS of_task
        FROM line
    )
    SELECT 'turn',
        CASE WHEN jobs >= 10000 THEN 'at least ' ELSE '' END || to_char(jobs, 'FM999,999')
            || CASE jobs WHEN 1 THEN ' job goes first' ELSE ' jobs go first' END
            || ' in queue ' || p_job.queue || ', '
            || CASE of_task WHEN jobs THEN 'all' ELSE to_char(of_task, 'FM999,999') END
            || ' of task ' || task,
        CASE WHEN of_task >= 1000 AND task <> p_job.task AND task NOT LIKE '-%'
            AND p_job.priority > -2147483648
        THEN 'if it may wait: queue jobs move --priority ' || p_job.priority - 1
            || ' --task ' || shell_argument(task) END
    FROM counted WHERE jobs > 0
$$;
