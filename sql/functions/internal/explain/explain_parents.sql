-- Returns the jobs that keep a job from running because it comes after them: at most ten, those
-- that have not succeeded first.
CREATE OR REPLACE FUNCTION explain_parents(p_id bigint)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    WITH parent AS (
        SELECT edges.parent, job.status, job.task,
            -- A failed parent that was retried counts like any other.
            edges.failed AND coalesce(job.status IN ('failed', 'cancelled', 'aborted'), true)
                AS failed,
            -- An open transaction may still add it, as in await_parents.
            job.status IS NULL AND NOT edges.failed AND coalesce(NOT is_past(edges.horizon), false)
                AS missed
        FROM edges LEFT JOIN LATERAL (
            SELECT all_jobs.status, all_jobs.task FROM all_jobs WHERE all_jobs.id = edges.parent
            ORDER BY finished_at DESC NULLS FIRST LIMIT 1
        ) AS job ON true
        WHERE edges.child = p_id
    ), waits AS (
        SELECT * FROM parent
        WHERE failed OR missed
            OR status NOT IN ('succeeded', 'failed', 'cancelled', 'aborted')
    )
    (SELECT CASE WHEN failed THEN 'parent failed' ELSE 'parent' END,
        'it comes after job ' || parent || CASE
            WHEN missed THEN ', which is in no table: an open transaction may still add it'
            ELSE coalesce(' (' || task || '), which is ' || status,
                ', which did not succeed and is gone') END,
        CASE WHEN missed THEN NULL
             WHEN NOT failed THEN 'queue jobs explain ' || parent
             WHEN status IS NULL THEN 'queue jobs retry ' || p_id
             ELSE 'queue jobs retry ' || parent END
     FROM waits ORDER BY failed DESC, parent LIMIT 10)
    UNION ALL
    SELECT 'parents', 'and ' || count(*) - 10 || ' more', NULL FROM waits HAVING count(*) > 10
$$;
