-- Returns the jobs that a worker is doing, as the server knows them. A worker asks after it lost
-- the reply to a call.
CREATE OR REPLACE FUNCTION jobs_of_worker(p_worker uuid) RETURNS SETOF jobs
LANGUAGE sql STABLE AS $$
    SELECT * FROM jobs WHERE status = 'doing' AND worker_id = p_worker ORDER BY id
$$;
