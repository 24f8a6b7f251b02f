-- Returns how to end a worker that no longer responds, and what that means for its jobs. SIGTERM
-- would only ask it to wait for them.
CREATE OR REPLACE FUNCTION ending_of_worker(p_worker workers) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT 'kill -9 ' || p_worker.pid || ' on ' || p_worker.hostname || ' (it runs ' || count(*)
        || CASE count(*) WHEN 1 THEN ' job' ELSE ' jobs' END
        || '; jobs not aborted restart elsewhere)'
    FROM claimed_jobs WHERE worker_id = p_worker.id AND status = 'doing'
$$;
