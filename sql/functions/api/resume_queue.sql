-- resume_queue: lets a paused queue continue (NULL: ends the pause of all queues, while those of
-- single queues stay). Returns false if it was not paused.
CREATE OR REPLACE FUNCTION resume_queue(p_queue text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_pause queue_pauses;
BEGIN
    PERFORM require_read_committed();
    DELETE FROM queue_pauses WHERE queue = coalesce(p_queue, '') RETURNING * INTO v_pause;
    IF v_pause.queue IS NULL OR v_pause.until <= clock() THEN
        RETURN false;
    END IF;
    PERFORM audit('resume-queue', coalesce(p_queue, '*'), 0, p_by, v_pause.reason);
    PERFORM notify_workers(NULL);
    RETURN true;
END $$;
