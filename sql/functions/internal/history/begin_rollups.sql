-- Queues the days of the history that have not been counted yet (see roll_up).
CREATE OR REPLACE FUNCTION begin_rollups() RETURNS void
LANGUAGE sql AS $$
    INSERT INTO rollup_days (day, file, due_at)
    SELECT found.day, pg_relation_filenode(found.name::regclass), clock()
    FROM (
        SELECT relname AS name, to_date(right(relname, 8), 'YYYYMMDD') AS day
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'finished_jobs'::regclass AND relname ~ '^finished_jobs_[0-9]{8}$'
    ) AS found
    WHERE found.day <= clock()::date
        AND NOT EXISTS (SELECT FROM rollup_days WHERE rollup_days.day = found.day)
$$;
