-- Returns when the server's clock was set back: the fence of a start after that, and the times that
-- the clock may have shown twice.
--
-- Fences rise with the starts of all jobs, whatever the clock says. It was set back if five of
-- twenty starts in a row are all later than five of the next twenty. Fewer are no evidence: a call
-- may have waited before it took a fence, and all jobs that it starts have one time.
CREATE OR REPLACE FUNCTION clock_steps(
    p_runs job_run[], p_calls interval,
    OUT fence bigint, OUT from_at timestamptz, OUT until_at timestamptz
) RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    WITH near AS MATERIALIZED (
        SELECT run.fence, started_at,
            max(started_at) OVER (ORDER BY run.fence ROWS BETWEEN 20 PRECEDING AND 1 PRECEDING)
                AS most,
            min(started_at) OVER (ORDER BY run.fence ROWS BETWEEN CURRENT ROW AND 19 FOLLOWING)
                AS least
        FROM unnest(p_runs) AS run WHERE run.ran
    )
    SELECT near.fence, near.least, near.most FROM near
    WHERE near.most > near.least + p_calls AND (
            SELECT start.started_at FROM (
                SELECT DISTINCT earlier.started_at FROM (
                    SELECT other.started_at FROM near AS other WHERE other.fence < near.fence
                    ORDER BY other.fence DESC LIMIT 20) AS earlier
            ) AS start
            ORDER BY start.started_at DESC OFFSET 4 LIMIT 1
        ) > p_calls + (
            SELECT start.started_at FROM (
                SELECT DISTINCT later.started_at FROM (
                    SELECT other.started_at FROM near AS other WHERE other.fence >= near.fence
                    ORDER BY other.fence LIMIT 20) AS later
            ) AS start
            ORDER BY start.started_at OFFSET 4 LIMIT 1)
$$;
