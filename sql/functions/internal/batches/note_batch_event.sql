-- Adds to what has happened to a batch in this transaction. Returns true for the first event, and
-- NULL if the event does not count: the job is the callback, or the batch has already ended and the
-- job is running again. Never waits: no other transaction has this row.
CREATE OR REPLACE FUNCTION note_batch_event(
    p_batch bigint,
    p_event batch_event,
    p_jobs  bigint,
    p_job   bigint DEFAULT NULL  -- the job that ends or will run again
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_jobs bigint;
BEGIN
    INSERT INTO batch_events AS noted (batch_id, xact, event, jobs, at)
    SELECT p_batch, pg_current_xact_id()::text::bigint, p_event, p_jobs, clock()
    FROM batches
    WHERE id = p_batch AND ended_at IS NULL
        AND (p_job IS NULL OR callback_id IS DISTINCT FROM p_job)
    LIMIT 1
    ON CONFLICT (batch_id, xact, event) DO UPDATE SET jobs = noted.jobs + p_jobs
    RETURNING jobs INTO v_jobs;
    RETURN v_jobs = p_jobs;
END $$;
