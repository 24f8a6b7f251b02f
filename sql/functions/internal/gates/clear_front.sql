-- Makes more jobs wait at gates that a claim has just found closed (p_gates), so that a few claims
-- get past a burst of them: free jobs that far_front finds, jobs that wait for a limit although
-- their task is paused, and the next jobs of up to 100 lanes among the first tokens. A claim calls
-- it if nothing that it has found may start. Returns how many lanes it has tried to win.
CREATE OR REPLACE FUNCTION clear_front(r claim_round, p_gates text[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_share integer := greatest(1000 / cardinality(r.queues), 20);
    v_seen  record;
    v_won   record;
BEGIN
    PERFORM close_gates(p_gates, ARRAY(SELECT far_front(r.queues, r.ids)), r.paused);
    PERFORM close_gates(p_gates, ARRAY(
        SELECT job.id FROM (
            SELECT DISTINCT limit_gate(limit_key) AS gate FROM jobs
            WHERE id = ANY (r.ids) AND limit_key IS NOT NULL
        ) AS own
        CROSS JOIN LATERAL (
            SELECT waiting.id, waiting.task FROM gated_jobs AS waiting
            WHERE waiting.gate = own.gate LIMIT 1000
        ) AS job
        WHERE job.task IN (SELECT unnest(r.paused))), r.paused) WHERE r.paused <> '{}';
    SELECT array_agg(first.lock) AS locks, array_agg(first.id) AS ids INTO v_seen
    FROM (
        SELECT token.lock, token.id
        FROM lane_tokens(r.queues, array_fill(v_share, ARRAY[cardinality(r.queues)]), r.lost)
            AS token
        WHERE token.open AND NOT token.several AND (
            SELECT next_gate(task IN (SELECT unnest(r.paused)), task, limit_key)
                IN (SELECT unnest(p_gates))
            FROM jobs WHERE jobs.id = token.id)
        LIMIT 100
    ) AS first;
    IF v_seen.locks IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(own.lock) AS locks, array_agg(own.job_id) AS retries INTO v_won
    FROM acquire_lanes(r.worker, r.served, v_seen.locks, v_seen.ids, 100) AS own;
    IF v_won.locks IS NULL THEN
        RETURN cardinality(v_seen.locks);
    END IF;
    -- New statements, so they read what was committed before we got the lanes.
    PERFORM close_gates(p_gates, array_remove(v_won.retries, NULL) || ARRAY(
        SELECT head.id FROM unnest(v_won.locks, v_won.retries) AS own(lock, job_id)
        CROSS JOIN LATERAL lane_heads(ARRAY[own.lock]) AS head
        WHERE own.job_id IS NULL AND NOT head.several), r.paused);
    PERFORM notify_workers(release_lanes(ARRAY(
        SELECT unnest(v_won.locks)
        EXCEPT SELECT reserve_lanes(v_won.locks, v_won.retries, v_won.retries))));
    RETURN cardinality(v_seen.locks);
END $$;
