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
    WITH near AS (
        SELECT run.fence, array_agg(started_at) OVER before AS earlier,
            array_agg(started_at) OVER next AS later, max(started_at) OVER before AS most,
            min(started_at) OVER next AS least
        FROM unnest(p_runs) AS run WHERE run.ran
        WINDOW before AS (ORDER BY run.fence ROWS BETWEEN 20 PRECEDING AND 1 PRECEDING),
            next AS (ORDER BY run.fence ROWS BETWEEN CURRENT ROW AND 19 FOLLOWING)
    )
    SELECT near.fence, least, most
    FROM near
    WHERE most > least + p_calls AND (
            SELECT at FROM (SELECT DISTINCT unnest(earlier) AS at) AS start
            ORDER BY at DESC OFFSET 4 LIMIT 1
        ) > p_calls + (
            SELECT at FROM (SELECT DISTINCT unnest(later) AS at) AS start
            ORDER BY at OFFSET 4 LIMIT 1)
$$;
