-- Sets more jobs of paused tasks (p_tasks) aside, so that a few claims get past a burst of them:
-- free jobs that far_front finds, jobs that wait for a limit of one of the jobs p_seen, and the
-- next jobs of up to 100 lanes among the first tokens. A claim calls it if everything it found
-- belongs to such tasks. Returns how many lanes it has won and given back. p_served are the queues
-- of the worker (NULL: all).
CREATE OR REPLACE FUNCTION pause_front(
    p_worker uuid, p_served text[], p_queues text[], p_tasks text[], p_seen bigint[], p_lost text[]
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_share   integer := greatest(1000 / cardinality(p_queues), 20);
    v_free    bigint[] := ARRAY(
        SELECT id FROM far_front(p_queues, p_seen) WHERE task IN (SELECT unnest(p_tasks)));
    v_limited bigint[] := ARRAY(
        SELECT job.id FROM (
            SELECT DISTINCT limit_key::text AS key FROM jobs
            WHERE id = ANY (p_seen) AND limit_key IS NOT NULL
        ) AS own
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.task FROM jobs
            WHERE jobs.status = 'limited' AND jobs.limit_key = own.key LIMIT 1000
        ) AS job
        WHERE job.task IN (SELECT unnest(p_tasks)));
    v_seen    record;
    v_won     record;
BEGIN
    PERFORM set_aside(v_free || v_limited, p_tasks) WHERE v_free <> '{}' OR v_limited <> '{}';
    SELECT array_agg(first.lock) AS locks, array_agg(first.id) AS ids INTO v_seen
    FROM (
        SELECT token.lock, token.id
        FROM lane_tokens(p_queues, array_fill(v_share, ARRAY[cardinality(p_queues)]), p_lost)
            AS token
        WHERE token.open AND NOT token.several AND (
            SELECT jobs.task IN (SELECT unnest(p_tasks)) FROM jobs WHERE jobs.id = token.id)
        LIMIT 100
    ) AS first;
    IF v_seen.locks IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(own.lock) AS locks, array_agg(own.job_id) AS retries INTO v_won
    FROM acquire_lanes(p_worker, p_served, v_seen.locks, v_seen.ids, 100) AS own;
    IF v_won.locks IS NULL THEN
        RETURN 0;
    END IF;
    -- New statements, so they read what was committed before we got the lanes.
    PERFORM set_aside(array_remove(v_won.retries, NULL) || ARRAY(
        SELECT head.id FROM unnest(v_won.locks, v_won.retries) AS own(lock, job_id)
        CROSS JOIN LATERAL lane_heads(ARRAY[own.lock]) AS head
        WHERE own.job_id IS NULL AND NOT head.several), p_tasks);
    PERFORM notify_workers(release_lanes(ARRAY(
        SELECT unnest(v_won.locks)
        EXCEPT SELECT reserve_lanes(v_won.locks, v_won.retries, v_won.retries))));
    RETURN cardinality(v_won.locks);
END $$;
