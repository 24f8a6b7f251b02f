-- Returns how many jobs ended in each bucket of p_minutes minutes, and how long they waited and
-- ran: half of them at most p50, 19 of 20 at most p95. With p_by `task` or `queue`, one row for
-- each of them, with its name. NULL: one row for all, without a name. p_task and p_queue select
-- jobs. NULL for p_minutes: one bucket for the whole time.
--
-- It reads the rollup, not the history (see roll_up). Five-minute counts are kept for two days, and
-- hourly counts for a year. It reads hourly counts if you ask for whole hours, or start more than
-- two days ago.
--
-- A job waits from the time it became due (deferred, scheduled or retried) until a worker has
-- claimed it: behind other jobs of its lane, for its limit and for a slot. It runs from there until
-- its end is stored. Only its last attempt counts. A cancelled job counts for neither.
CREATE OR REPLACE FUNCTION measure_history(
    p_from    timestamptz,
    p_until   timestamptz DEFAULT NULL,
    p_minutes integer DEFAULT NULL,
    p_by      text DEFAULT NULL,
    p_task    text DEFAULT NULL,
    p_queue   text DEFAULT NULL
) RETURNS TABLE (
    at timestamptz, name text, succeeded bigint, failed bigint, cancelled bigint, aborted bigint,
    wait_p50 interval, wait_p95 interval, run_p50 interval, run_p95 interval
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_kept  integer := CASE WHEN p_minutes % 60 = 0 OR p_from < clock() - interval '2 days'
        THEN 60 ELSE 5 END;
    v_width integer := 60 * greatest(v_kept, p_minutes);   -- seconds
    v_from  timestamptz := to_timestamp(floor(extract(epoch FROM p_from) / (60 * v_kept))
        * 60 * v_kept);
BEGIN
    RETURN QUERY
    WITH part AS MATERIALIZED (
        SELECT CASE WHEN p_minutes IS NULL THEN v_from
                ELSE to_timestamp(floor(extract(epoch FROM at) / v_width) * v_width) END AS at,
            CASE p_by WHEN 'task' THEN task WHEN 'queue' THEN queue END AS name,
            succeeded, failed, cancelled, aborted, waits, runs
        FROM rollups
        WHERE minutes = v_kept AND rollups.at >= v_from
            AND rollups.at < coalesce(p_until, 'infinity')
            AND (p_task IS NULL OR task = p_task) AND (p_queue IS NULL OR queue = p_queue)
    ), counted AS (
        SELECT at, name, sum(succeeded) AS succeeded, sum(failed) AS failed,
            sum(cancelled) AS cancelled, sum(aborted) AS aborted
        FROM part GROUP BY at, name
    ), bin AS (
        SELECT at, name, bins.bin, sum(bins.wait) AS wait, sum(bins.run) AS run
        FROM part CROSS JOIN LATERAL unnest(waits, runs) WITH ORDINALITY AS bins(wait, run, bin)
        GROUP BY at, name, bins.bin
    ), merged AS (
        SELECT at, name, array_agg(wait ORDER BY bin) AS waits, array_agg(run ORDER BY bin) AS runs
        FROM bin GROUP BY at, name
    )
    SELECT counted.at, counted.name::text, counted.succeeded::bigint, counted.failed::bigint,
        counted.cancelled::bigint, counted.aborted::bigint,
        percentile(waits, 0.5), percentile(waits, 0.95),
        percentile(runs, 0.5), percentile(runs, 0.95)
    FROM counted LEFT JOIN merged
        ON merged.at = counted.at AND merged.name IS NOT DISTINCT FROM counted.name
    ORDER BY counted.at, counted.name;
END $$;
