-- Adds to what has happened to a batch in this transaction. Returns true if it is the first such
-- event. It waits for nobody: no other transaction has this row.
CREATE OR REPLACE FUNCTION note_batch_event(p_batch bigint, p_event batch_event, p_jobs bigint)
    RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_jobs bigint;
BEGIN
    INSERT INTO batch_events AS noted (batch_id, xact, event, jobs, at)
    VALUES (p_batch, pg_current_xact_id()::text::bigint, p_event, p_jobs, clock())
    ON CONFLICT (batch_id, xact, event) DO UPDATE SET jobs = noted.jobs + p_jobs
    RETURNING jobs INTO v_jobs;
    RETURN v_jobs = p_jobs;
END $$;
