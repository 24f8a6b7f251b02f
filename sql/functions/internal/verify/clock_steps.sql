-- Returns when the server's clock was set back: the fence of the first start after that, and the
-- times that the clock may have shown twice.
--
-- Fences rise with the starts of all jobs, whatever the clock says. It was set back if five in a
-- row are all later than the next five. Fewer are no evidence: a call may have waited before it
-- took a fence, and all jobs that it starts have one time.
CREATE OR REPLACE FUNCTION clock_steps(
    p_runs job_run[], p_calls interval,
    OUT fence bigint, OUT from_at timestamptz, OUT until_at timestamptz
) RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    SELECT near.fence, least_next, most_before
    FROM (
        SELECT run.fence, min(started_at) OVER before AS least_before,
            max(started_at) OVER before AS most_before, min(started_at) OVER next AS least_next,
            max(started_at) OVER next AS most_next, count(*) OVER before AS count_before,
            count(*) OVER next AS count_next
        FROM unnest(p_runs) AS run WHERE run.ran
        WINDOW before AS (ORDER BY run.fence ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING),
            next AS (ORDER BY run.fence ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING)
    ) AS near
    WHERE least_before > most_next + p_calls AND least_next < most_next
        AND count_before = 5 AND count_next = 5
$$;
