-- Locks the lane rows of jobs that still run under these claims, and the jobs that a user may have
-- locked. Lanes are locked first, each kind in order. From here on, no session blocks a job that we
-- miss: one that held the lane row before us has committed by the time we look, and a later one
-- finds the lane as we leave it. Never waits for open transactions. Jobs that are still locked
-- after a moment are busy, and cannot end yet. The gates of limits are locked last.
--
-- It must not take some lanes of a job that has several and then wait for the others: its worker
-- and its rescuer could each have one of them, and block each other.
CREATE OR REPLACE FUNCTION lock_lanes(
    p_ids bigint[], p_claims uuid[],
    OUT stopped text[],   -- lanes that a person has stopped since their job started
    OUT busy    bigint[]  -- jobs that an open transaction has locked, or their lanes
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ours record;
    v_held bigint := 0;
    v_shut text[];   -- gates that stay locked
BEGIN
    stopped := '{}';
    busy := '{}';
    SELECT array_agg(jobs.lock) FILTER (WHERE jobs.lock IS NOT NULL) AS locks,
        bool_or(is_touched(jobs.xmin, jobs.xmax)) AS touched,
        array_agg(limit_gate(jobs.limit_key)) FILTER (WHERE jobs.limit_key IS NOT NULL) AS gates,
        bool_or(jobs.several) AS several
    INTO v_ours
    FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
    CROSS JOIN LATERAL (
        SELECT j.lock::text, j.limit_key, j.xmin, j.xmax, j.locks IS NOT NULL AS several
        FROM jobs AS j
        WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1
    ) AS jobs;

    IF v_ours.locks IS NOT NULL AND NOT v_ours.several THEN
        WITH held AS MATERIALIZED (
            SELECT own.* FROM (SELECT unnest(v_ours.locks) COLLATE "C" AS lock ORDER BY 1) AS wanted
            CROSS JOIN LATERAL (
                SELECT lanes.lock, lanes.stopped FROM lanes WHERE lanes.lock = wanted.lock
                ORDER BY lanes.version DESC LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) AS own
        )
        SELECT count(*),
            coalesce(array_agg(held.lock) FILTER (WHERE held.stopped IS NOT NULL), '{}')
                INTO v_held, stopped FROM held;
    END IF;

    IF v_ours.touched OR cardinality(v_ours.locks) > v_held THEN
        SELECT rest.stopped, rest.busy INTO stopped, busy
        FROM lock_contended_lanes(p_ids, p_claims) AS rest;
    END IF;
    IF v_ours.gates IS NOT NULL THEN
        v_shut := await_gates(v_ours.gates);
        IF v_shut <> '{}' THEN
            busy := busy || ARRAY(
                SELECT jobs.id
                FROM unnest(mask_ids(p_ids, busy), p_claims) AS ours(id, claim_id)
                CROSS JOIN LATERAL (
                    SELECT j.id, j.limit_key FROM jobs AS j
                    WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1
                ) AS jobs
                WHERE limit_gate(jobs.limit_key) IN (SELECT unnest(v_shut)));
        END IF;
    END IF;
END $$;
