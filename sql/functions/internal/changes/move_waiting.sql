-- Gives waiting jobs another priority, another queue, or both. The caller has locked them and their
-- lanes, and puts the lanes in order afterwards (reopen_lane), because the first job of a lane may
-- be another one. No job changes its status.
--
-- A job that was a token may have been woken for a slot of its limit, which must pass to the next
-- one. A job that waits for a slot may now be the best, or wait in a queue in which none did.
CREATE OR REPLACE FUNCTION move_waiting(p_ids bigint[], p_priority integer, p_queue text)
    RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gates text[];
BEGIN
    PERFORM leave_line(id, priority, locks) FROM jobs WHERE id = ANY (p_ids) AND locks IS NOT NULL;
    WITH moved AS (
        UPDATE jobs
        SET priority = coalesce(p_priority, priority), queue = coalesce(p_queue, queue),
            -- it has another place, as if it came back (see line_from)
            delayed_at = CASE WHEN scheduled_at IS NULL AND p_priority <> priority
                              THEN clock() ELSE delayed_at END,
            back_id = CASE WHEN coalesce(p_priority, priority) = priority THEN back_id END
        WHERE id = ANY (p_ids)
        RETURNING limit_gate(limit_key) AS gate
    )
    SELECT array_agg(DISTINCT gate) FILTER (WHERE gate IS NOT NULL) INTO v_gates FROM moved;
    PERFORM join_lanes(p_ids);
    PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;
    PERFORM notify_workers(ARRAY[p_queue]) WHERE p_queue IS NOT NULL AND p_ids <> '{}';
END $$;
