-- pause_queue: starts no job of the queue (NULL: of any queue) until the given time, or until it is
-- resumed. Jobs that workers have already claimed still run. A lane whose next job is in the queue
-- waits, whatever its other jobs are. If the queue is already paused, this pause replaces the
-- earlier one without a gap, but keeps its reason if you give none.
CREATE OR REPLACE FUNCTION pause_queue(
    p_queue text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL,
    p_by text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_queue = '' OR octet_length(p_queue) > 63 OR has_invalid_queue(ARRAY[p_queue]) THEN
        PERFORM raise_invalid_queue(ARRAY[p_queue]);
    END IF;
    PERFORM pause('queue', coalesce(p_queue, ''), p_reason, p_until, p_by);
END $$;
