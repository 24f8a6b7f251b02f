-- Deletes some of what the rollup no longer needs: five-minute counts after two days, hourly counts
-- after a year, and the records of days that have left the history. Returns true if there may be
-- more.
CREATE OR REPLACE FUNCTION prune_rollups() RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM rollups WHERE (minutes, at, queue, task) IN (
        SELECT old.minutes, old.at, old.queue, old.task
        FROM (VALUES (5, interval '2 days'), (60, interval '366 days')) AS span(minutes, keep)
        CROSS JOIN LATERAL (
            SELECT * FROM rollups
            WHERE rollups.minutes = span.minutes AND rollups.at < clock() - span.keep
            ORDER BY rollups.at LIMIT 1000
        ) AS old
    );
    GET DIAGNOSTICS v_count = ROW_COUNT;
    DELETE FROM rollup_days
    WHERE day < clock()::date - 2 AND to_regclass(history_table(day)) IS NULL;
    DELETE FROM uncounted_ends WHERE day < clock()::date - 2
        AND NOT EXISTS (SELECT FROM rollup_days WHERE rollup_days.day = uncounted_ends.day);
    RETURN v_count >= 1000;
END $$;
