-- Deletes jobs that ended longer ago than p_older, in one queue (NULL: in all) and with one of
-- these statuses. A job that halts its lane stays, because a person has to decide about it. Returns
-- the number of deleted jobs. prune_history drops whole days instead.
CREATE OR REPLACE FUNCTION delete_old_jobs(p_older interval, p_queue text, p_statuses job_status[])
    RETURNS bigint
LANGUAGE sql AS $$
    SELECT check_age(p_older);
    WITH gone AS (
        DELETE FROM finished_jobs AS old
        WHERE old.finished_at < clock() - p_older
          AND old.status = ANY (p_statuses)
          AND (p_queue IS NULL OR old.queue = p_queue)
          AND NOT EXISTS (SELECT FROM lanes WHERE lanes.failed_job_id = old.id)
        RETURNING keep_uncounted(old, old.tableoid, old.xmin, old.ctid)
    )
    SELECT count(*) FROM gone
$$;
