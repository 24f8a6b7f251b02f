-- Returns the jobs that later slices must compare with. A job that had ended before another was
-- deferred cannot have been in its way, so these are the jobs that had not ended when the last one
-- of the slice was deferred: no more than the queue held at that time. Jobs without a lock and
-- without a limit are in nobody's way.
--
-- Of the jobs that have never started, the first three of each lane and priority are enough. At
-- most p_most are kept, those that ended last.
CREATE OR REPLACE FUNCTION keep_runs(p_runs job_run[], p_most integer) RETURNS job_run[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(run), '{}') FROM (
        SELECT run FROM (
            SELECT run, row_number() OVER (
                    PARTITION BY (run).waits, (run).locks, (run).priority ORDER BY (run).id
                ) AS place,
                max((run).created_at) OVER () AS edge
            FROM unnest(p_runs) AS run
        ) AS near
        WHERE ((run).locks IS NOT NULL OR (run).limit_key IS NOT NULL)
            AND CASE WHEN (run).ran THEN (run).ended_at > edge - interval '1 minute'
                     ELSE (run).waits AND place <= 3 END
        ORDER BY (run).ended_at DESC, (run).id DESC LIMIT p_most
    ) AS kept
$$;
