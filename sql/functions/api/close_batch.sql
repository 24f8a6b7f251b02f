-- close_batch: lets a batch end, and its callback run, as soon as no jobs of it are left. An empty
-- one ends at once. Closing it again does nothing. Returns false if it does not exist. Never waits:
-- a claim closes it. With p_by, lane_audit records who did it.
CREATE OR REPLACE FUNCTION close_batch(p_id bigint, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM batches WHERE id = p_id) THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM batches WHERE id = p_id AND closed_at IS NULL) THEN
        PERFORM note_batch_event(p_id, 'closed', 0);
        PERFORM notify_workers(NULL);
        IF p_by IS NOT NULL THEN
            PERFORM audit('close-batch', NULL, 0, p_by, name, NULL, p_id)
            FROM batches WHERE id = p_id;
        END IF;
    END IF;
    RETURN true;
END $$;
