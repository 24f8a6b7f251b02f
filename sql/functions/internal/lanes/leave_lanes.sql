-- Gives back the shares of jobs, and returns the lanes that are now free: those that the jobs held
-- alone, and those of which they had the last share. The caller holds the rows, and frees them. It
-- has moved the jobs out of `doing` itself, so a share goes back exactly once. For the other lanes
-- that they shared, it calls wake_readers. If the number of readers was changed by hand, jobs can
-- still end, and reconcile repairs it.
CREATE OR REPLACE FUNCTION leave_lanes(p_jobs job_lanes[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT lane FROM unnest(p_jobs) AS job CROSS JOIN LATERAL unnest(job.locks) AS lane
    WHERE coalesce(lane <> ALL (job.shared), true);
    RETURN QUERY
    WITH given AS (
        SELECT lane, count(*) FROM unnest(p_jobs) AS job
        CROSS JOIN LATERAL unnest(job.shared) AS lane GROUP BY lane
    ), less AS (
        UPDATE lanes SET readers = nullif(greatest(readers - given.count, 0), 0)
        FROM given WHERE lanes.lock = ANY (ARRAY[given.lane]) AND readers IS NOT NULL
        RETURNING lanes.lock, lanes.readers
    )
    SELECT less.lock FROM less WHERE less.readers IS NULL;
END $$;
