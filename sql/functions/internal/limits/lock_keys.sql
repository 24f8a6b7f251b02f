-- Locks the keys of jobs that still run under these claims, in order. The caller has locked their
-- lanes. Returns the jobs whose keys stay locked for longer than a moment.
--
-- It must not take the free keys first and then wait for the others: two callers could each hold
-- what the other one waits for.
CREATE OR REPLACE FUNCTION lock_keys(p_ids bigint[], p_claims uuid[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_jobs record;
    v_held text[];
BEGIN
    SELECT array_agg(jobs.id) AS ids, array_agg(jobs.limit_key) AS keys,
        array_agg(DISTINCT jobs.limit_key) AS wanted
    INTO v_jobs
    FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
    CROSS JOIN LATERAL (
        SELECT j.id, j.limit_key::text FROM jobs AS j
        WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1
    ) AS jobs
    WHERE jobs.limit_key IS NOT NULL;

    PERFORM await_keys(v_jobs.wanted);
    v_held := try_lock_keys(v_jobs.wanted);
    RETURN ARRAY(
        SELECT job.id FROM unnest(v_jobs.ids, v_jobs.keys) AS job(id, key)
        WHERE job.key NOT IN (SELECT unnest(v_held)));
END $$;
