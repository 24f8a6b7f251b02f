-- report_progress: stores how far attempts at jobs are. An attempt is named by its fence, so a
-- worker that was taken for dead cannot write over what a later attempt has told, and what it
-- writes before that is not shown.
--
-- It reads no job. So it costs the same for an attempt that has ended meanwhile: what an attempt
-- told last is stored even after the end of its job. The rows are written in the order of their
-- ids, so two calls never wait for each other.
CREATE OR REPLACE FUNCTION report_progress(
    p_ids    bigint[],
    p_fences bigint[],
    p_done   bigint[],
    p_totals bigint[],
    p_texts  text[]
) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET lock_timeout = '50ms'
AS $$
BEGIN
    INSERT INTO progress AS told (job_id, fence, done, total, text, updated_at)
    SELECT e.*, clock()
    FROM unnest(p_ids, p_fences, p_done, p_totals, p_texts) AS e(id, fence, done, total, text)
    ORDER BY e.id
    ON CONFLICT (job_id) DO UPDATE
    SET fence = excluded.fence, done = excluded.done, total = excluded.total, text = excluded.text,
        updated_at = excluded.updated_at
    WHERE told.fence <= excluded.fence;
END $$;
