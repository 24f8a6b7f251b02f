-- Returns jobs that ran twice (`once`): two rows with one id, or two runs at once; and two runs
-- with one fence (`fence`).
CREATE OR REPLACE FUNCTION judge_once(p_runs job_run[], p_after bigint, p_calls interval)
    RETURNS SETOF observation
LANGUAGE sql STABLE AS $$
    SELECT 'once', 'broken', NULL, min(run.locks[1]), run.id, NULL::bigint,
        format('is stored %s times: ended %s', count(*),
            string_agg(CASE WHEN run.lives THEN 'not yet' ELSE format('at %s', run.ended_at) END,
                       ' and ' ORDER BY run.ended_at)),
        NULL::timestamptz, NULL::timestamptz
    FROM unnest(p_runs) AS run WHERE run.id > p_after
    GROUP BY run.id HAVING count(*) > 1
    UNION ALL
    SELECT 'once', CASE WHEN is_long THEN 'broken' ELSE 'unsure' END,
        CASE WHEN NOT is_long THEN 'waiting call' END, run.locks[1], run.id, NULL,
        format('started again at %s, while it ran until %s', run.clash_from, run.clash_until),
        run.clash_from, run.clash_until
    FROM unnest(p_runs) AS run
    CROSS JOIN LATERAL (SELECT run.clash_until - run.clash_from > p_calls AS is_long) AS length
    WHERE run.id > p_after AND run.clash_from IS NOT NULL
    UNION ALL
    SELECT 'fence', 'broken', NULL, min(run.locks[1]), max(run.id), min(run.id),
        format('has the fence %s of job %s', run.fence, min(run.id)), NULL, NULL
    FROM unnest(p_runs) AS run WHERE run.ran
    GROUP BY run.fence HAVING max(run.id) > min(run.id) AND max(run.id) > p_after
$$;
