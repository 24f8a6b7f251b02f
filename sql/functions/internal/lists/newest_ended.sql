-- Returns the newest jobs that have ended, at most p_search, in any order: those that a filtered
-- list or count searches. If only failed jobs are wanted, returns the newest of these, however many
-- have succeeded; with a batch, those of this batch. With `before`, skips the jobs of at most a day
-- that ended later. The planner inlines it.
CREATE OR REPLACE FUNCTION newest_ended(
    p_filter job_filter, p_search integer, p_before_id bigint DEFAULT NULL
) RETURNS SETOF finished_jobs
LANGUAGE sql STABLE AS $$
    (SELECT * FROM finished_jobs
     WHERE (p_filter).batch_id IS NULL AND only_failed((p_filter).statuses) AND status = 'failed'
        AND ((p_filter).before IS NULL OR finished_at < (p_filter).before)
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY finished_at DESC LIMIT p_search)
    UNION ALL
    (SELECT * FROM finished_jobs
     WHERE (p_filter).batch_id IS NULL AND NOT only_failed((p_filter).statuses)
        AND ((p_filter).before IS NULL OR finished_at < (p_filter).before)
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY id DESC LIMIT p_search)
    UNION ALL
    -- A range of one id (see newest_live).
    (SELECT * FROM finished_jobs
     WHERE (p_filter).batch_id IS NOT NULL AND batch_id IS NOT NULL
        AND batch_id BETWEEN (p_filter).batch_id AND (p_filter).batch_id
        AND ((p_filter).before IS NULL OR finished_at < (p_filter).before)
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY batch_id DESC, id DESC LIMIT p_search)
$$;
