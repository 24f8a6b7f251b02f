-- Makes claims wake jobs that were set aside for a pause of their task but have no row of that
-- pause. There should never be any: each one is a bug, or a row deleted by hand. Checks no more
-- than p_limit tasks.
CREATE OR REPLACE FUNCTION reconcile_pauses(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_task text;
BEGIN
    FOR v_task IN
        WITH RECURSIVE aside(task, n) AS (
            (SELECT task, 1 FROM jobs WHERE status = 'paused'
             ORDER BY task LIMIT 1)
            UNION ALL
            SELECT (SELECT jobs.task FROM jobs
                    WHERE status = 'paused' AND jobs.task > aside.task
                    ORDER BY jobs.task LIMIT 1), n + 1
            FROM aside WHERE aside.task IS NOT NULL AND n < p_limit
        )
        SELECT aside.task FROM aside
        WHERE aside.task IS NOT NULL
            AND (SELECT true FROM task_pauses WHERE task_pauses.task = aside.task LIMIT 1) IS NULL
    LOOP
        INSERT INTO task_pauses (task, paused_at, until, paused_by)
        VALUES (v_task, clock(), clock(), 'inturn') ON CONFLICT DO NOTHING;
        PERFORM audit('reconcile-task', v_task, 1, 'inturn', 'jobs were aside without a pause');
    END LOOP;
END $$;
