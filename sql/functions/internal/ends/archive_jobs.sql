-- Moves jobs to the history: the only function that does. A job is named by id and claim (NULL: it
-- is not running). If another claim has taken it over, it is left alone. The caller holds the lane
-- rows.
--
-- The WHERE clause must not name the status: a plan could then scan the index of running jobs once
-- for each of ours. The ANY leaves the index of ids as the only way to find a job (see the README
-- of the functions). The ids are sorted, so a rescuer of the same jobs locks them in the same
-- order.
--
-- A job that was a token may have been woken for a slot of its limit. Then the next one of the key
-- must be woken (leave_looks).
CREATE OR REPLACE FUNCTION archive_jobs(
    p_ids      bigint[],
    p_claims   uuid[]       DEFAULT NULL, -- NULL: no job is running, and all are cancelled
    p_statuses job_status[] DEFAULT NULL,
    p_errors   jsonb[]      DEFAULT NULL,
    p_results  jsonb[] DEFAULT NULL,      -- what the tasks returned
    p_forget   job_status[] DEFAULT '{}'  -- leave no history, unless the job halts its lane
)
RETURNS TABLE (
    id bigint, lock text, status job_status, on_failure failure_policy, limit_key text,
    lanes job_lanes   -- of a job that has `locks`
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock();
BEGIN
    RETURN QUERY
    WITH gone AS (
        DELETE FROM jobs USING (
            SELECT * FROM unnest(p_ids, p_claims, p_statuses, p_errors, p_results)
                AS e(id, claim_id, status, error, result)
            ORDER BY e.id
        ) AS ended
        WHERE jobs.id = ANY (ARRAY[ended.id]) AND jobs.claim_id IS NOT DISTINCT FROM ended.claim_id
        RETURNING jobs.*, ended.error, ended.result,
            CASE WHEN p_claims IS NULL THEN 'cancelled' ELSE ended.status END AS outcome
    ), kept AS (
        INSERT INTO finished_jobs (
            id, fence, worker_id, scheduled_at, created_at, started_at, finished_at, status,
            on_retry, on_failure, priority, attempts, queue, task, lock, queueing_lock, args,
            errors, result, timeout, expires_at, limit_key, group_key, batch_id, locks, shared,
            headers
        )
        SELECT id, fence, worker_id, scheduled_at, created_at, started_at, v_now, outcome,
               on_retry, on_failure, priority, attempts, queue, task, lock, queueing_lock, args,
               add_error(errors, error, attempts, started_at, worker_id), result, timeout,
               expires_at, limit_key, group_key, batch_id, locks, shared, headers
        FROM gone
        WHERE outcome <> ALL (p_forget)
            OR (outcome = 'failed' AND on_failure = 'halt' AND lock IS NOT NULL)
    )
    SELECT gone.id, gone.lock::text, gone.outcome, gone.on_failure, gone.limit_key::text,
        CASE WHEN gone.locks IS NOT NULL THEN ROW(gone.id, gone.locks, gone.shared)::job_lanes END
    FROM gone
    WHERE (NOT gone.has_waiters OR notify_ended(gone.id))
        AND CASE WHEN gone.has_children OR gone.has_parents
                 THEN tell_relatives(gone.id, gone.outcome, gone.has_children) ELSE true END
        AND CASE WHEN gone.batch_id IS NOT NULL
                 THEN tell_batch(gone.id, gone.batch_id, gone.outcome) ELSE true END
        AND CASE WHEN gone.limit_key IS NOT NULL AND gone.status = 'todo'
                 THEN leave_looks(ARRAY[limit_gate(gone.limit_key)]) ELSE true END
        AND CASE WHEN gone.locks IS NOT NULL
                 THEN leave_line(gone.id, gone.priority, gone.locks) ELSE true END;
END $$;
