-- Returns the running jobs that a worker is asked to abort.
CREATE OR REPLACE FUNCTION abort_requests(p_worker uuid) RETURNS TABLE (id bigint)
LANGUAGE sql STABLE AS $$
    SELECT id FROM jobs WHERE status = 'doing' AND worker_id = p_worker AND abort
$$;
