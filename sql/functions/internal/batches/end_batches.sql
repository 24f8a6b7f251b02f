-- Ends those of the given batches that are closed and have no jobs left, as far as the caller has
-- counted: their callbacks become `todo`. The caller has locked the batches. Never waits.
--
-- A batch ends only if this call holds its gate exclusively, so no open transaction has added jobs
-- to it. Then the events are read again in a new statement, which sees the jobs of every earlier
-- gate holder. If an open transaction holds the gate or the callback, a later claim tries again.
CREATE OR REPLACE FUNCTION end_batches(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_alone bigint[];
    v_done  record;
BEGIN
    v_alone := ARRAY(SELECT batch_id FROM batch_gates
        WHERE batch_id = ANY (p_ids) FOR UPDATE SKIP LOCKED);
    SELECT array_agg(id) AS ids, array_agg(callback_id) AS callbacks INTO v_done
    FROM batches
    WHERE id = ANY (v_alone)
        AND (SELECT true FROM batch_events
             WHERE batch_events.batch_id = batches.id AND event <> 'look' LIMIT 1) IS NULL
        AND CASE WHEN (SELECT status FROM jobs WHERE jobs.id = callback_id LIMIT 1) = 'pending'
                 THEN try_lock_job(callback_id) ELSE true END;
    IF v_done.ids IS NOT NULL THEN
        UPDATE batches SET ended_at = clock() WHERE id = ANY (v_done.ids);
        DELETE FROM batch_gates WHERE batch_id = ANY (v_done.ids);
        DELETE FROM batch_events WHERE batch_id = ANY (v_done.ids);
        PERFORM free_children(v_done.callbacks, 'pending');
    END IF;
    -- That transaction may stay open for hours, so back off.
    INSERT INTO batch_events (batch_id, xact, event, jobs, at, due_at)
    SELECT id, 0, 'look', 0, clock(), clock()
        + least(greatest((clock() - closed_at) / 10, interval '0.1 s'), interval '2 s')
    FROM batches WHERE id = ANY (p_ids) AND ended_at IS NULL
    ON CONFLICT DO NOTHING;
END $$;
