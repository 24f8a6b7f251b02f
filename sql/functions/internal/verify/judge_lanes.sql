-- Returns the runs of a lane that break a promise: two at once (`overlap`), and one with a higher
-- fence that had ended before the other began (`fence`). Jobs that share the lane may run at once.
--
-- The fence tells which of two runs began later, whatever the clock says. It overlaps the other run
-- for certain if that ended after `sure_at`, or, if commits are known, if that end was committed
-- after its own end began. Otherwise the call that started it may have waited for that end.
--
-- A row may have been written again long after the end, by a restore or with its partition. Its
-- commit tells nothing if it came more than p_open after the end, or if rows with other ends share
-- it.
--
-- Window functions find the suspects. Only these look for the other run.
CREATE OR REPLACE FUNCTION judge_lanes(p_runs job_run[], p_after bigint, p_open interval)
    RETURNS SETOF observation
LANGUAGE sql STABLE AS $$
    WITH run AS MATERIALIZED (
        SELECT run.*, lane, coalesce(lane IN (SELECT unnest(run.shared)), false) AS shares,
            CASE WHEN run.lives THEN 'infinity'
                 WHEN run.committed_at < run.ended_at + p_open
                     AND min(run.ended_at) OVER same = max(run.ended_at) OVER same
                     THEN run.committed_at END AS let_go_at
        FROM unnest(p_runs) AS run CROSS JOIN LATERAL unnest(run.locks) AS lane
        WHERE run.ran
        WINDOW same AS (PARTITION BY run.committed_at)
    ), line AS (
        SELECT run.*,
            max(ended_at) OVER before AS last_end, max(let_go_at) OVER before AS last_commit,
            max(ended_at) FILTER (WHERE NOT shares) OVER before AS last_lone_end,
            max(let_go_at) FILTER (WHERE NOT shares) OVER before AS last_lone_commit
        FROM run
        WINDOW before AS (
            PARTITION BY lane ORDER BY fence, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), suspect AS (
        SELECT * FROM line
        WHERE CASE WHEN shares THEN last_lone_end ELSE last_end END > started_at
            OR CASE WHEN shares THEN last_lone_commit ELSE last_commit END > ended_at
    ), pair AS (
        SELECT late.lane, late.id, late.fence, late.started_at, late.ended_at,
            other.id AS other_id, other.fence AS other_fence, other.started_at AS other_start,
            other.started_at > late.ended_at AS lost,
            CASE WHEN other.let_go_at > late.ended_at THEN other.let_go_at
                 ELSE other.ended_at END AS other_end,
            other.ended_at > late.sure_at
                OR coalesce(other.let_go_at > late.ended_at, false) AS sure
        FROM suspect AS late CROSS JOIN LATERAL (
            SELECT run.* FROM run
            WHERE run.lane = late.lane AND run.id <> late.id
                AND (run.id > p_after OR late.id > p_after)
                AND (run.fence, run.id) < (late.fence, late.id)
                AND CASE WHEN run.started_at > late.ended_at THEN true
                         WHEN run.shares AND late.shares THEN false
                         ELSE run.ended_at > late.started_at
                             OR run.let_go_at > late.ended_at END
            ORDER BY run.started_at > late.ended_at,
                greatest(run.ended_at, run.let_go_at) DESC
            LIMIT 1
        ) AS other
    )
    SELECT 'fence', 'broken', NULL, lane, id, other_id, format(
            'ended at %s with fence %s, before job %s started at %s with fence %s',
            ended_at, fence, other_id, other_start, other_fence),
        ended_at, other_start
    FROM pair WHERE lost
    UNION ALL
    SELECT 'overlap', CASE WHEN sure THEN 'broken' ELSE 'unsure' END,
        CASE WHEN NOT sure THEN 'waiting call' END, lane, id, other_id,
        format('started at %s, while job %s ran until %s', started_at, other_id, other_end),
        started_at, other_end
    FROM pair WHERE NOT lost
$$;
