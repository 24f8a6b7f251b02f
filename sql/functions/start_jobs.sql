-- The only place where a job becomes `doing`. The caller holds what makes it safe: the rows of free jobs, the lane rows of
-- lane jobs. A lane's job runs under the lane's claim; a free job (claim NULL) gets a random one of its own. Random, not
-- counted: after a failover a counter can hand out the same number twice.
CREATE OR REPLACE FUNCTION start_jobs(p_worker uuid, p_ids bigint[], p_claims uuid[]) RETURNS SETOF jobs
LANGUAGE sql AS $$
    UPDATE jobs
    SET status = 'doing',
        claim_id = coalesce(starting.claim_id, gen_random_uuid()),
        fence = nextval('fences'),
        worker_id = p_worker,
        started_at = clock(),
        attempts = jobs.attempts + 1
    FROM unnest(p_ids, p_claims) AS starting(id, claim_id)
    WHERE jobs.id = starting.id AND jobs.status IN ('todo', 'blocked')
    RETURNING jobs.*
$$;
