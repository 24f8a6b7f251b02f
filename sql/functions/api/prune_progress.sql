-- prune_progress: deletes the progress of jobs that are neither live nor in the history, among the
-- p_limit rows after p_after. Returns the row to continue after, or NULL after the last one.
--
-- One statement reads both tables, so it misses no job that moves from one to the other.
CREATE OR REPLACE FUNCTION prune_progress(p_after bigint, p_limit integer) RETURNS bigint
LANGUAGE plpgsql
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_count integer;
    v_last  bigint;
BEGIN
    WITH looked AS MATERIALIZED (
        SELECT job_id FROM progress WHERE job_id > p_after ORDER BY job_id LIMIT p_limit
    ), gone AS MATERIALIZED (
        SELECT progress.job_id
        FROM looked JOIN progress ON progress.job_id = ANY (ARRAY[looked.job_id])
        WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = looked.job_id)
          AND NOT EXISTS (SELECT FROM finished_jobs WHERE finished_jobs.id = looked.job_id)
        FOR UPDATE OF progress SKIP LOCKED
    ), deleted AS (
        DELETE FROM progress USING gone WHERE progress.job_id = ANY (ARRAY[gone.job_id])
    )
    SELECT count(*), max(job_id) INTO v_count, v_last FROM looked;
    RETURN CASE WHEN v_count = p_limit THEN v_last END;
END $$;
