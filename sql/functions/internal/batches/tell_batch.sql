-- Counts the end of a job of a batch. It only adds to a row of this transaction, and the claims
-- that follow count it (settle_batches). Sleeping workers are woken for that. Returns true, so that
-- the call can stand in a condition.
CREATE OR REPLACE FUNCTION tell_batch(p_id bigint, p_batch bigint, p_status job_status)
    RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF note_batch_event(p_batch, p_status::text::batch_event, 1, p_id) THEN
        PERFORM notify_workers(NULL);
    END IF;
    RETURN true;
END $$;
