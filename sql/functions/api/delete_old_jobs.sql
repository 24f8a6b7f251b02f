-- Deletes jobs that have ended longer ago than that, of one queue (NULL: of all), and so. A job that halts its lane stays: people
-- are to decide about it. Returns how many. To drop whole days see prune_history.
CREATE OR REPLACE FUNCTION delete_old_jobs(p_older interval, p_queue text, p_statuses job_status[]) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM finished_jobs AS old
    WHERE old.finished_at < clock() - p_older
      AND old.status = ANY (p_statuses)
      AND (p_queue IS NULL OR old.queue = p_queue)
      AND NOT EXISTS (SELECT FROM lanes WHERE lanes.failed_job_id = old.id);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
