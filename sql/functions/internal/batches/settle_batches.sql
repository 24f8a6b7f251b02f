-- settle_batches: counts batch events, and ends batches that are closed and have no jobs left
-- (end_batches). Looks at about p_limit events. Never waits: if another claim is counting a batch,
-- its events stay for the next call.
--
-- The batch row is locked first and its events are taken afterwards, in a new statement, so no
-- event counts twice. They are taken by their ctid: a join would leave the planner a choice, and so
-- would a comparison of due_at that an index can answer.
CREATE OR REPLACE FUNCTION settle_batches(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_due  bigint[] := ARRAY(SELECT DISTINCT batch_id FROM (
        SELECT batch_id FROM batch_events WHERE due_at <= clock()
        ORDER BY due_at LIMIT p_limit) AS due);
    v_ids  bigint[] := ARRAY(
        SELECT id FROM batches WHERE id = ANY (v_due) FOR NO KEY UPDATE SKIP LOCKED);
    v_full bigint[];
BEGIN
    WITH taken AS (
        DELETE FROM batch_events WHERE ctid = ANY (ARRAY(
            SELECT event.place
            FROM unnest(v_ids) AS ours(id)
            CROSS JOIN LATERAL (
                SELECT e.ctid AS place FROM batch_events AS e
                WHERE e.batch_id = ours.id AND (e.due_at <= clock()) IS TRUE LIMIT p_limit
            ) AS event
            LIMIT p_limit))
        RETURNING batch_id, event, jobs, at
    ), counted AS (
        SELECT batch_id, min(at) FILTER (WHERE event = 'closed') AS closed_at,
            coalesce(sum(jobs) FILTER (WHERE event = 'joined'), 0) AS joined,
            coalesce(sum(jobs) FILTER (WHERE event = 'succeeded'), 0) AS succeeded,
            coalesce(sum(jobs) FILTER (WHERE event = 'failed'), 0) AS failed,
            coalesce(sum(jobs) FILTER (WHERE event = 'cancelled'), 0) AS cancelled,
            coalesce(sum(jobs) FILTER (WHERE event = 'aborted'), 0) AS aborted
        FROM taken GROUP BY batch_id
    )
    UPDATE batches
    SET closed_at = coalesce(batches.closed_at, counted.closed_at), total = total + joined,
        succeeded = batches.succeeded + counted.succeeded,
        failed = batches.failed + counted.failed,
        cancelled = batches.cancelled + counted.cancelled,
        aborted = batches.aborted + counted.aborted
    FROM counted WHERE batches.id = ANY (ARRAY[counted.batch_id]);

    v_full := ARRAY(SELECT id FROM batches
        WHERE id = ANY (v_ids) AND closed_at IS NOT NULL AND ended_at IS NULL
            AND total = succeeded + failed + cancelled + aborted);
    IF v_full <> '{}' THEN
        PERFORM end_batches(v_full);
    END IF;
    -- Events of deleted batches need no counting.
    IF cardinality(v_ids) < cardinality(v_due) THEN
        DELETE FROM batch_events WHERE batch_id = ANY (ARRAY(
            SELECT unnest(v_due) EXCEPT SELECT id FROM batches WHERE id = ANY (v_due)));
    END IF;
END $$;
