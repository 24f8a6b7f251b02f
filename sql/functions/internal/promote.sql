-- promote: scheduled jobs that are due become `todo`. Each one is its own wake-up token, as if it
-- were deferred now, and takes its place in its lane by priority and id. Bounded. It never waits
-- for another promoter.
CREATE OR REPLACE FUNCTION promote(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH due AS MATERIALIZED (
        SELECT id FROM jobs
        WHERE status = 'scheduled' AND scheduled_at <= clock()
        ORDER BY scheduled_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    UPDATE jobs SET status = 'todo' WHERE jobs.id = ANY (ARRAY(SELECT due.id FROM due));
END $$;
