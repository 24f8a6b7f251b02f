-- Locks the gates of the limits of jobs that still run under these claims, in order. The caller has
-- locked their lanes. Returns the jobs whose gates stay locked for longer than a moment.
--
-- It must not take the free gates first and then wait for the others: two callers could each hold
-- what the other one waits for.
CREATE OR REPLACE FUNCTION lock_gates(p_ids bigint[], p_claims uuid[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_jobs record;
    v_held text[];
BEGIN
    SELECT array_agg(jobs.id) AS ids, array_agg(jobs.gate) AS gates,
        array_agg(DISTINCT jobs.gate) AS wanted
    INTO v_jobs
    FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
    CROSS JOIN LATERAL (
        SELECT j.id, limit_gate(j.limit_key) AS gate FROM jobs AS j
        WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1
    ) AS jobs
    WHERE jobs.gate IS NOT NULL;

    PERFORM await_gates(v_jobs.wanted);
    v_held := try_lock_gates(v_jobs.wanted);
    RETURN ARRAY(
        SELECT job.id FROM unnest(v_jobs.ids, v_jobs.gates) AS job(id, gate)
        WHERE job.gate NOT IN (SELECT unnest(v_held)));
END $$;
