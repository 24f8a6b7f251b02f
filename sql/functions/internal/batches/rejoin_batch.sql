-- Takes back the end of a job that will run again, unless its batch has already ended. The batch
-- then waits for the job's next end. Like join_batches, it keeps the batch open until commit.
CREATE OR REPLACE FUNCTION rejoin_batch(p_id bigint, p_batch bigint, p_status job_status)
    RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM batch_gates WHERE batch_id = p_batch FOR KEY SHARE;
    IF FOUND THEN
        PERFORM note_batch_event(p_batch, p_status::text::batch_event, -1, p_id);
    END IF;
END $$;
