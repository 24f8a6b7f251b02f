-- Returns the newest jobs that have ended, at most p_search, in any order: those that a filtered
-- list or count searches. If only failed jobs are wanted, returns the newest of these, however many
-- have succeeded; with p_batch, those of this batch. With p_before, skips the jobs of at most a day
-- that ended later. The planner inlines it.
CREATE OR REPLACE FUNCTION newest_ended(
    p_search integer, p_statuses job_status[], p_batch bigint, p_before timestamptz,
    p_before_id bigint
) RETURNS SETOF finished_jobs
LANGUAGE sql STABLE AS $$
    (SELECT * FROM finished_jobs
     WHERE p_batch IS NULL AND only_failed(p_statuses) AND status = 'failed'
        AND (p_before IS NULL OR finished_at < p_before)
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY finished_at DESC LIMIT p_search)
    UNION ALL
    (SELECT * FROM finished_jobs
     WHERE p_batch IS NULL AND NOT only_failed(p_statuses)
        AND (p_before IS NULL OR finished_at < p_before)
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY id DESC LIMIT p_search)
    UNION ALL
    -- A range of one id (see newest_live).
    (SELECT * FROM finished_jobs
     WHERE p_batch IS NOT NULL AND batch_id IS NOT NULL AND batch_id BETWEEN p_batch AND p_batch
        AND (p_before IS NULL OR finished_at < p_before)
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY batch_id DESC, id DESC LIMIT p_search)
$$;
