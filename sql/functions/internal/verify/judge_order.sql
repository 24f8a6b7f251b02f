-- Returns jobs that started before one that was deferred earlier in the same lane: one row for each
-- job that started early, preferably with a job that nothing excuses. The reasons that excuse it:
--
--   priority      the earlier job has a lower one
--   operator      lane_audit says that a person has changed one of them
--   schedule      the earlier job was not due, or waited for other jobs, until less than p_open
--                 before the later one was deferred (or was put back, see put_back)
--   late commit   the later job was deferred less than p_open after the earlier one, whose
--                 transaction may have been open
--   release       the earlier job had run and left the lane, and was put back in line
--   retry         the earlier job ran before, and the history does not tell when it was first due,
--                 or whether a person has run it again
--   bulk change   between their starts, a person has moved many jobs, perhaps one of these
--
-- Ids rise as jobs are deferred, so a job was deferred after all with lower ids, and before those
-- with higher ones were deferred or started, even if a call took long or the clock was wrong.
--
-- Jobs of one call to defer have the same created_at, and none of them is committed late. If the
-- server tracks commits, neither is a job that still waits and was last written before the other
-- was deferred.
CREATE OR REPLACE FUNCTION judge_order(
    p_runs job_run[], p_after bigint, p_calls interval, p_open interval
) RETURNS SETOF observation
LANGUAGE sql STABLE AS $$
    WITH run AS MATERIALIZED (
        SELECT run.*, lane, CASE WHEN run.ran THEN run.started_at ELSE 'infinity' END AS starts_at
        FROM (
            SELECT run.*, max(created_at) OVER (ORDER BY id) AS deferred_after,
                min(least(created_at, began_at)) OVER (ORDER BY id DESC) AS deferred_before
            FROM unnest(p_runs) AS run
        ) AS run
        CROSS JOIN LATERAL unnest(run.locks) AS lane
        WHERE run.ran OR run.waits
    ), line AS (
        SELECT run.*, max(starts_at) OVER (
            PARTITION BY lane ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS last_start
        FROM run
    ), early AS (
        SELECT line.id, lane, began_at, other.*
        FROM line CROSS JOIN LATERAL (
            SELECT pair.other_id, other_start, excuse
            FROM (
                SELECT run.id AS other_id, run.starts_at AS other_start,
                    CASE WHEN run.priority < line.priority THEN 'priority'
                         WHEN run.attempts > 1 AND run.releases THEN 'release'
                         WHEN run.attempts > 1 THEN 'retry'
                         WHEN run.due_at IS NOT NULL
                             AND greatest(run.due_at, run.deferred_after) + p_open
                                 > line.deferred_before THEN 'schedule'
                         WHEN run.created_at <> line.created_at
                             AND run.deferred_after + p_open > line.deferred_before
                             AND (run.waits AND run.committed_at < line.created_at) IS NOT TRUE
                             THEN 'late commit' END AS excuse
                FROM run
                WHERE run.lane = line.lane AND run.id < line.id AND run.starts_at > line.began_at
                    AND CASE WHEN line.attempts > 1 OR run.attempts > 1
                             THEN run.starts_at > line.began_at + p_calls
                             ELSE run.waits OR run.fence > line.fence END
            ) AS pair
            ORDER BY excuse IS NOT NULL, excuse = 'priority', pair.other_id
            LIMIT 1
        ) AS other
        WHERE line.id > p_after AND line.ran AND line.last_start > line.began_at
    ), moved AS MATERIALIZED (
        SELECT at FROM lane_audit WHERE operation = 'move-jobs' AND job_id IS NULL
    ), named AS (
        SELECT early.*, CASE WHEN excuse = 'priority' THEN excuse
            WHEN (SELECT true FROM lane_audit
                  WHERE lane_audit.job_id = ANY (ARRAY[early.id, early.other_id]) LIMIT 1)
                THEN 'operator'
            WHEN excuse IS NULL AND (SELECT true FROM moved
                                     WHERE at BETWEEN began_at AND other_start LIMIT 1)
                THEN 'bulk change'
            ELSE excuse END AS reason
        FROM early
    )
    SELECT 'order', CASE WHEN reason IS NULL THEN 'broken'
                         WHEN reason IN ('retry', 'bulk change') THEN 'unsure'
                         ELSE 'allowed' END,
        reason, lane, id, other_id,
        format('started at %s, before job %s, which was deferred earlier and %s', began_at,
            other_id, CASE WHEN other_start = 'infinity' THEN 'still waits'
                           ELSE format('started at %s', other_start) END),
        began_at, other_start
    FROM named
$$;
