-- Adds to the rollup what a pass has yet to count in the pages of a day before p_to (see roll_up):
-- the rows there, and rows that left before they were counted.
--
-- The statement has one snapshot, so a row that leaves now is in exactly one of the two places.
-- Rows are compared by the age of their transaction, because the column has only 32 bits.
CREATE OR REPLACE FUNCTION count_ends(p_pass rollup_days, p_to bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_youngest integer := age((p_pass.counting_below & 4294967295)::text::xid);
    v_oldest   integer := least(2147483647,
        v_youngest + p_pass.counting_below - p_pass.counted_below);
BEGIN
    EXECUTE format($statement$
        WITH ended AS MATERIALIZED (
            SELECT queue, task COLLATE "C" AS task, status, created_at, scheduled_at, started_at,
                finished_at
            FROM %I
            WHERE ctid >= $1 AND ctid < $2 AND age(xmin) > $3 AND age(xmin) <= $4
            UNION ALL
            SELECT queue, task COLLATE "C", status, created_at, scheduled_at, started_at,
                finished_at
            FROM uncounted_ends
            WHERE day = $5 AND page >= $6 AND page < $7 AND xact >= $8 AND xact < $9
        ), timed AS MATERIALIZED (
            SELECT queue, task, status, extract(epoch FROM finished_at) AS seconds,
                CASE WHEN status <> 'cancelled' THEN
                    duration_bin(coalesce(scheduled_at, created_at), started_at) END AS wait,
                CASE WHEN status <> 'cancelled' THEN
                    duration_bin(started_at, finished_at) END AS run
            FROM ended
        )
        INSERT INTO rollups AS old (minutes, at, queue, task,
            succeeded, failed, cancelled, aborted, waits, runs)
        SELECT span.minutes,
            to_timestamp(floor(seconds / (60 * span.minutes)) * 60 * span.minutes) AS start,
            queue, task,
            count(*) FILTER (WHERE status = 'succeeded'),
            count(*) FILTER (WHERE status = 'failed'),
            count(*) FILTER (WHERE status = 'cancelled'),
            count(*) FILTER (WHERE status = 'aborted'),
            histogram(array_agg(wait) FILTER (WHERE wait IS NOT NULL)),
            histogram(array_agg(run) FILTER (WHERE run IS NOT NULL))
        FROM timed CROSS JOIN (VALUES (5), (60)) AS span(minutes)
        GROUP BY span.minutes, start, queue, task
        ON CONFLICT (minutes, at, queue, task) DO UPDATE
        SET succeeded = old.succeeded + excluded.succeeded, failed = old.failed + excluded.failed,
            cancelled = old.cancelled + excluded.cancelled,
            aborted = old.aborted + excluded.aborted,
            waits = add_counts(old.waits, excluded.waits),
            runs = add_counts(old.runs, excluded.runs)
        $statement$, history_table(p_pass.day))
    USING format('(%s,0)', p_pass.next_page)::tid, format('(%s,0)', p_to)::tid,
        v_youngest, v_oldest, p_pass.day, p_pass.next_page, p_to, p_pass.counted_below,
        p_pass.counting_below;
END $$;
