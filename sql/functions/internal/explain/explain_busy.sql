-- Returns whose open transactions have a job locked, for example by a replace, a skip or an abort.
-- Workers pass over the job until they end.
CREATE OR REPLACE FUNCTION explain_busy(p_id bigint)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'busy', locker.*
    FROM jobs
    CROSS JOIN LATERAL
        locking_processes('job ' || p_id, jobs.xmin, jobs.xmax, jobs.tableoid) AS locker
    WHERE jobs.id = p_id
$$;
