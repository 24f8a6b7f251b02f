-- pause_queue: starts no job of the queue (NULL: of any queue) until the given time, or until it is
-- resumed. Jobs that workers have already claimed still run. A lane whose next job is in the queue
-- waits, whatever its other jobs are. If the queue is already paused, this pause replaces the
-- earlier one without a gap, but keeps its reason if you give none.
CREATE OR REPLACE FUNCTION pause_queue(
    p_queue text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL,
    p_by text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM require_read_committed();
    IF p_queue = '' OR octet_length(p_queue) > 63 OR has_invalid_queue(ARRAY[p_queue]) THEN
        PERFORM raise_invalid_queue(ARRAY[p_queue]);
    ELSIF p_until <= clock() THEN
        RAISE EXCEPTION 'a pause until % would already be over', p_until
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    DELETE FROM queue_pauses WHERE until <= clock();
    INSERT INTO queue_pauses AS old (queue, paused_at, until, paused_by, reason)
    VALUES (coalesce(p_queue, ''), clock(), p_until, coalesce(p_by, session_user), p_reason)
    ON CONFLICT (queue) DO UPDATE
    SET until = excluded.until, paused_by = excluded.paused_by,
        reason = coalesce(excluded.reason, old.reason);
    PERFORM audit('pause-queue', coalesce(p_queue, '*'), 0, p_by, p_reason);
    -- Sleeping workers must learn when it ends.
    PERFORM notify_workers(NULL) WHERE p_until IS NOT NULL;
END $$;
