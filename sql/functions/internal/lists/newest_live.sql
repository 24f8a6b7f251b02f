-- Returns the newest live jobs, at most p_search: those that a list or a count searches first. With
-- p_batch, only jobs of this batch. The planner inlines it.
--
-- The batch is written as a range of one id. Otherwise the planner could take the order of the
-- primary key for that of the batch, and scan all other jobs.
CREATE OR REPLACE FUNCTION newest_live(p_search integer, p_batch bigint, p_before_id bigint)
RETURNS SETOF jobs
LANGUAGE sql STABLE AS $$
    (SELECT * FROM jobs
     WHERE p_batch IS NULL AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY id DESC LIMIT p_search)
    UNION ALL
    (SELECT * FROM jobs
     WHERE p_batch IS NOT NULL AND batch_id IS NOT NULL AND batch_id BETWEEN p_batch AND p_batch
        AND (p_before_id IS NULL OR id < p_before_id)
     ORDER BY batch_id DESC, id DESC LIMIT p_search)
$$;
