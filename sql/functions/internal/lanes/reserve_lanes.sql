-- Gives back lanes that a claim has taken over for the retry of a job that could not start after
-- all: they wait for it again. Returns them.
CREATE OR REPLACE FUNCTION reserve_lanes(p_locks text[], p_jobs bigint[], p_waiting bigint[])
    RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    UPDATE lanes SET worker_id = NULL, job_id = own.job_id
    FROM unnest(p_locks, p_jobs) AS own(lock, job_id)
    WHERE coalesce(own.job_id IN (SELECT unnest(p_waiting)), false)
        AND lanes.lock = ANY (ARRAY[own.lock])
    RETURNING lanes.lock::text;
END $$;
