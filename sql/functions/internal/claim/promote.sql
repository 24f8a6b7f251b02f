-- promote: sets scheduled jobs that are due `todo`. Each one is its own wake-up token, as if it
-- were deferred now, and takes its place in its lane by priority and id. A job that comes after
-- others becomes `pending` if one of them has not ended. Bounded. Never waits for another promoter.
CREATE OR REPLACE FUNCTION promote(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_children bigint[];
    v_joining  bigint[];   -- jobs with `locks`
BEGIN
    WITH due AS MATERIALIZED (
        SELECT id, has_parents, locks IS NOT NULL AS joins FROM jobs
        WHERE status = 'scheduled' AND scheduled_at <= clock()
        ORDER BY scheduled_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), ready AS (
        -- They are locked, so we have a transaction id (see final_ids).
        UPDATE jobs SET status = 'todo', back_id = nextval('jobs_id_seq')
        WHERE jobs.id = ANY (ARRAY(SELECT due.id FROM due WHERE due.has_parents IS NOT TRUE))
    )
    SELECT array_agg(due.id) FILTER (WHERE due.has_parents),
        array_agg(due.id) FILTER (WHERE due.joins)
    INTO v_children, v_joining FROM due WHERE due.has_parents OR due.joins;
    IF v_joining IS NOT NULL THEN
        PERFORM join_lanes(v_joining);
    END IF;
    IF v_children IS NOT NULL THEN
        PERFORM await_parents(v_children);
    END IF;
END $$;
