-- Makes jobs wait at their gates, if these are among p_gates: they become `limited`, or `paused` if
-- their task is among p_paused. They keep their place in their lanes, and no claim meets them until
-- open_gates wakes them. The caller has found the gates closed under their locks, or leaves a look
-- at those that stay locked, and holds the lanes of the jobs. Never waits: a job that is locked
-- stays as it is.
--
-- A job that is set aside for its task may have been woken for a slot, which must pass to the next.
CREATE OR REPLACE FUNCTION close_gates(p_gates text[], p_ids bigint[], p_paused text[])
    RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_ids   bigint[];
    v_gates text[];
BEGIN
    v_ids := ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY (p_ids) AND status IN ('todo', 'blocked', 'limited')
            AND coalesce(next_gate(task IN (SELECT unnest(p_paused)), task, limit_key)
                IN (SELECT unnest(p_gates)), false)
        FOR UPDATE SKIP LOCKED);
    WITH waiting AS (
        UPDATE jobs
        SET status = CASE WHEN task IN (SELECT unnest(p_paused)) THEN 'paused'::job_status
                          ELSE 'limited' END
        WHERE jobs.id = ANY (v_ids)
        RETURNING jobs.status, jobs.limit_key
    )
    SELECT array_agg(DISTINCT limit_gate(limit_key)) INTO v_gates
    FROM waiting WHERE status = 'paused' AND limit_key IS NOT NULL;
    PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;
END $$;
