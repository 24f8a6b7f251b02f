-- Returns those of a worker's jobs that it is asked to abort. Reads them by id, since an old
-- snapshot keeps the entries of all that the worker has run.
CREATE OR REPLACE FUNCTION abort_requests(p_worker uuid, p_ids bigint[])
    RETURNS TABLE (id bigint)
LANGUAGE sql STABLE AS $$
    SELECT job.id FROM unnest(p_ids) AS own(id)
    CROSS JOIN LATERAL (
        SELECT jobs.id FROM jobs
        WHERE jobs.id = own.id AND jobs.abort
            AND coalesce(jobs.status = 'doing' AND jobs.worker_id = p_worker, false) LIMIT 1
    ) AS job
$$;
