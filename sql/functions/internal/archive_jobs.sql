-- The only place where a job leaves `jobs` for the history. By id and claim (NULL: it is not being done): a job that somebody
-- else owns by now is left alone. The caller holds the lane rows.
--
-- Naming the status in the WHERE would let a plan walk the index of running jobs for each of ours. Sorted, so that a
-- rescuer of the same jobs and we lock them in one order.
CREATE OR REPLACE FUNCTION archive_jobs(
    p_ids      bigint[],
    p_claims   uuid[],
    p_statuses job_status[],
    p_errors   jsonb[],
    p_results  jsonb[] DEFAULT NULL,      -- what they returned
    p_forget   job_status[] DEFAULT '{}'  -- what ends so leaves no trace, unless it halts its lane
)
RETURNS TABLE (id bigint, lock text, status job_status, on_failure failure_policy)
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
        WHERE jobs.id = ended.id AND jobs.claim_id IS NOT DISTINCT FROM ended.claim_id
        RETURNING jobs.*, ended.status AS outcome, ended.error, ended.result
    ), kept AS (
        INSERT INTO finished_jobs (id, fence, worker_id, scheduled_at, created_at, started_at, finished_at, status,
                                   on_retry, on_failure, priority, attempts, queue, task, lock, queueing_lock, args, errors,
                                   result, timeout)
        SELECT id, fence, worker_id, scheduled_at, created_at, started_at, v_now, outcome,
               on_retry, on_failure, priority, attempts, queue, task, lock, queueing_lock, args, add_error(errors, error),
               result, timeout
        FROM gone
        WHERE outcome <> ALL (p_forget) OR (outcome = 'failed' AND on_failure = 'halt' AND lock IS NOT NULL)
    )
    SELECT gone.id, gone.lock, gone.outcome, gone.on_failure FROM gone
    WHERE NOT gone.has_waiters OR notify_ended(gone.id);
END $$;
