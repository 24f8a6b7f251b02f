-- Returns whether a job, live or finished, matches a filter. The caller checks the status. Lists
-- and bulks use it. The planner inlines it, so it must have no subquery: conditions that are NULL
-- then cost nothing, and the others can use an index.
CREATE OR REPLACE FUNCTION matches(
    p_filter job_filter, p_id bigint, p_queue text, p_task text, p_lock text, p_job_locks text[],
    p_queueing_lock text, p_worker uuid, p_batch bigint, p_group text, p_errors jsonb,
    p_at timestamptz
) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT ((p_filter).ids IS NULL OR p_id = ANY ((p_filter).ids))
        AND ((p_filter).queue IS NULL OR p_queue = (p_filter).queue)
        AND ((p_filter).task IS NULL OR p_task = (p_filter).task)
        AND ((p_filter).lock IS NULL OR p_lock = (p_filter).lock
            OR (p_filter).lock = ANY (p_job_locks))
        AND ((p_filter).queueing_lock IS NULL OR p_queueing_lock = (p_filter).queueing_lock)
        AND ((p_filter).worker_id IS NULL OR p_worker = (p_filter).worker_id)
        AND ((p_filter).batch_id IS NULL OR p_batch = (p_filter).batch_id)
        AND ((p_filter).group_key IS NULL OR p_group = (p_filter).group_key)
        AND ((p_filter).lock_prefix IS NULL OR starts_with(p_lock, (p_filter).lock_prefix)
            OR strpos(chr(1) || array_to_string(p_job_locks, chr(1)),
                chr(1) || (p_filter).lock_prefix) > 0)
        AND ((p_filter).error IS NULL
            OR strpos(p_errors -> -1 ->> 'error', (p_filter).error) > 0)
        AND ((p_filter).before IS NULL OR p_at < (p_filter).before)
$$;
