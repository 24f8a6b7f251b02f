-- Returns how many jobs without a group go before a job that waits for a slot, and of which task
-- most of them are: a flood of one task has another remedy than too few slots. It counts up to
-- 10,000 of each kind, and none that claims have found behind others of its lane.
CREATE OR REPLACE FUNCTION explain_line(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    WITH ahead AS (
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
           AND queue = p_job.queue AND priority > p_job.priority LIMIT 10000)
        UNION ALL
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
           AND queue = p_job.queue AND priority = p_job.priority AND id < p_job.id LIMIT 10000)
        UNION ALL
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
           AND queue = p_job.queue AND priority > p_job.priority LIMIT 10000)
        UNION ALL
        (SELECT task FROM jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
           AND queue = p_job.queue AND priority = p_job.priority AND id < p_job.id LIMIT 10000)
    ), of_task AS (
        SELECT task, count(*) AS jobs FROM ahead GROUP BY task
    ), most AS (
        SELECT task, jobs FROM of_task ORDER BY jobs DESC, task LIMIT 1
    )
    SELECT 'turn',
        CASE WHEN sum(of_task.jobs) >= 10000 THEN 'at least ' ELSE '' END
            || to_char(sum(of_task.jobs), 'FM999,999')
            || CASE sum(of_task.jobs) WHEN 1 THEN ' job goes first' ELSE ' jobs go first' END
            || ' in queue ' || p_job.queue || ', '
            || CASE count(*) WHEN 1 THEN 'all' ELSE to_char(max(of_task.jobs), 'FM999,999') END
            || ' of task ' || (SELECT most.task FROM most),
        NULL
    FROM of_task HAVING count(*) > 0
$$;
