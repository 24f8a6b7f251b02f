-- Counts the end of a job of a batch. It only adds a row, and the claims that follow count it
-- (settle_batches). A batch that has ended stays as it is: the job was run again after that. The
-- callback does not count. Returns true, so that the call can stand in a condition.
CREATE OR REPLACE FUNCTION tell_batch(p_id bigint, p_batch bigint, p_status job_status)
    RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT true FROM batches
        WHERE id = p_batch AND ended_at IS NULL AND callback_id IS DISTINCT FROM p_id LIMIT 1) THEN
        PERFORM notify_workers(NULL)
        WHERE note_batch_event(p_batch, p_status::text::batch_event, 1);
    END IF;
    RETURN true;
END $$;
