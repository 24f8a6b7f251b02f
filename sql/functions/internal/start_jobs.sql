-- The only place where a job becomes `doing`. The caller holds what makes it safe: the rows of free jobs, the lane rows of
-- lane jobs. Each call is a new claim, and no two attempts at a job come from one call, so id and claim name an attempt.
-- Random, not counted: after a failover a counter can hand out the same number twice. One a call: randomness is dear.
CREATE OR REPLACE FUNCTION start_jobs(p_worker uuid, p_ids bigint[]) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_claim uuid := gen_random_uuid();
    v_now   timestamptz := clock();
BEGIN
    IF p_ids IS NULL OR p_ids = '{}' THEN
        RETURN;
    END IF;
    -- A standby that was promoted may not know the last fences that the old primary gave.
    IF (nextval('fences') >> 40) & 65535 <> timeline() THEN
        PERFORM raise_fences(timeline());
    END IF;
    RETURN QUERY
    UPDATE jobs
    SET status = 'doing',
        claim_id = v_claim,
        fence = nextval('fences'),
        worker_id = p_worker,
        started_at = v_now,
        attempts = jobs.attempts + 1
    FROM unnest(p_ids) AS starting(id)
    WHERE jobs.id = starting.id AND jobs.status IN ('todo', 'blocked')
    RETURNING jobs.*;
END $$;
