-- Returns jobs that ran twice (`once`): two rows with one id, or two runs at once; and two runs
-- with one fence (`fence`).
CREATE OR REPLACE FUNCTION judge_once(p_runs job_run[], p_after bigint, p_calls interval)
    RETURNS TABLE (
        promise text, verdict text, reason text, lock text, job_id bigint, other_id bigint,
        seen text
    )
LANGUAGE sql STABLE AS $$
    SELECT 'once', 'broken', NULL, min(run.locks[1]), run.id, NULL::bigint,
        format('is stored %s times: ended %s', count(*),
            string_agg(CASE WHEN run.lives THEN 'not yet' ELSE format('at %s', run.ended_at) END,
                       ' and ' ORDER BY run.ended_at))
    FROM unnest(p_runs) AS run WHERE run.id > p_after
    GROUP BY run.id HAVING count(*) > 1
    UNION ALL
    SELECT 'once', CASE WHEN run.clash > p_calls THEN 'broken' ELSE 'unsure' END,
        CASE WHEN run.clash > p_calls THEN NULL ELSE 'waiting call' END, run.locks[1], run.id, NULL,
        format('ran twice at once for %s', run.clash)
    FROM unnest(p_runs) AS run WHERE run.id > p_after AND run.clash > interval '0'
    UNION ALL
    SELECT 'fence', 'broken', NULL, min(run.locks[1]), max(run.id), min(run.id),
        format('has the fence %s of job %s', run.fence, min(run.id))
    FROM unnest(p_runs) AS run WHERE run.ran
    GROUP BY run.fence HAVING max(run.id) > min(run.id) AND max(run.id) > p_after
$$;
