-- report_progress: stores how far attempts at jobs are. An attempt is named by its fence, so a
-- worker that was taken for dead cannot overwrite the report of a later attempt, and views do not
-- show what it wrote before.
--
-- It reads no job, so the last report of an attempt is stored even if its job has already ended.
-- The rows are written in the order of their ids, so two calls never deadlock.
CREATE OR REPLACE FUNCTION report_progress(
    p_ids    bigint[],
    p_fences bigint[],
    p_done   bigint[],
    p_totals bigint[],
    p_texts  text[]
) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
BEGIN
    INSERT INTO progress AS stored (job_id, fence, done, total, text, updated_at)
    SELECT e.*, clock()
    FROM unnest(p_ids, p_fences, p_done, p_totals, p_texts) AS e(id, fence, done, total, text)
    ORDER BY e.id
    ON CONFLICT (job_id) DO UPDATE
    SET fence = excluded.fence, done = excluded.done, total = excluded.total, text = excluded.text,
        updated_at = excluded.updated_at
    WHERE stored.fence <= excluded.fence;
END $$;
