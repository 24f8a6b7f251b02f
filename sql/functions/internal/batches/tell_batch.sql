-- Records the end of a batch's job. It only adds to this transaction's own row; later claims count
-- it (settle_batches), and sleeping workers are woken to do so. Returns true, for use in a
-- condition.
CREATE OR REPLACE FUNCTION tell_batch(p_id bigint, p_batch bigint, p_status job_status)
    RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF note_batch_event(p_batch, p_status::text::batch_event, 1, p_id) THEN
        PERFORM notify_workers(NULL);
    END IF;
    RETURN true;
END $$;
