-- Returns jobs that started before a job that they come after had ended (`parent`). The tables
-- remember whom a job comes after until it may start, so anything that is still there is wrong. If
-- the other job ran more than once, a person may have run it again since.
CREATE OR REPLACE FUNCTION judge_parents(p_runs job_run[], p_after bigint)
    RETURNS SETOF observation
LANGUAGE sql STABLE AS $$
    SELECT 'parent', CASE WHEN parent.attempts > 1 THEN 'unsure' ELSE 'broken' END,
        CASE WHEN parent.attempts > 1 THEN 'retry' END, run.locks[1], run.id, edge.parent,
        format('started at %s, before job %s, which it comes after, ended%s', run.started_at,
            edge.parent, ' at ' || nullif(parent.ended_at, 'infinity')),
        run.started_at, parent.ended_at
    FROM unnest(p_runs) AS run
    CROSS JOIN LATERAL (
        SELECT edges.parent FROM edges WHERE edges.child = run.id LIMIT 100) AS edge
    CROSS JOIN LATERAL (
        SELECT 'infinity'::timestamptz AS ended_at, attempts FROM jobs WHERE jobs.id = edge.parent
        UNION ALL
        SELECT finished_at, attempts FROM finished_jobs WHERE finished_jobs.id = edge.parent
        ORDER BY ended_at DESC LIMIT 1
    ) AS parent
    WHERE run.ran AND run.id > p_after AND parent.ended_at > run.sure_at
$$;
