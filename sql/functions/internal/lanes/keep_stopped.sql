-- Keeps lanes stopped whose running job has ended: a person stopped them while it ran, or the job
-- failed and its policy is to halt the lane (p_halts, ids). They keep their row. Returns all of
-- them.
CREATE OR REPLACE FUNCTION keep_stopped(p_locks text[], p_halts bigint[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[];
BEGIN
    WITH stop AS (
        SELECT unnest(p_locks) AS lock, NULL::bigint AS failed_id
        UNION ALL
        SELECT lane, id FROM finished_jobs CROSS JOIN LATERAL unnest(lanes_of(lock, locks)) AS lane
        WHERE id = ANY (p_halts)
    ), reason AS (
        SELECT lock, max(failed_id) AS failed_id FROM stop GROUP BY lock
    ), stopped AS (
        UPDATE lanes
        SET worker_id = NULL,
            look_at = NULL,
            since = clock(),
            stopped = CASE WHEN reason.failed_id IS NULL THEN lanes.stopped ELSE 'halted' END,
            stopped_at = coalesce(lanes.stopped_at, clock()),
            stopped_until = CASE WHEN reason.failed_id IS NULL THEN lanes.stopped_until END,
            failed_job_id = coalesce(reason.failed_id, lanes.failed_job_id),
            stopped_by = coalesce(lanes.stopped_by, 'on_failure'),
            stop_reason = coalesce(lanes.stop_reason, 'job ' || reason.failed_id || ' failed')
        FROM reason WHERE lanes.lock = reason.lock
        RETURNING lanes.lock
    )
    SELECT array_agg(lock) INTO v_result FROM stopped;
    RETURN v_result;
END $$;
