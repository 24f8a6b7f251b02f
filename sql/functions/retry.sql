-- retry: a job that is being done waits for its next attempt, before everything else of its lane: the lane row stays,
-- reserved for it (state `retrying`), until a claim takes the job again. Successors wait, also those of higher priority.
-- With the policy `release` the job leaves its lane until it is due, and the lane goes on.
--
-- Returns the ids that were still ours; of the others nothing is touched.
CREATE OR REPLACE FUNCTION retry(
    p_ids    bigint[],
    p_claims uuid[],
    p_delays interval[],   -- zero: at once
    p_errors jsonb[]
) RETURNS TABLE (id bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_stopped text[];
    v_again   record;
BEGIN
    PERFORM require_read_committed();
    v_stopped := hold_lanes(p_ids, p_claims);

    WITH again AS (
        UPDATE jobs
        SET status = CASE WHEN ended.delay > interval '0' THEN 'scheduled'::job_status ELSE 'todo' END,
            scheduled_at = clock() + ended.delay,
            claim_id = NULL,
            worker_id = NULL,
            errors = add_error(jobs.errors, ended.error)
        FROM (
            SELECT * FROM unnest(p_ids, p_claims, p_delays, p_errors) AS e(id, claim_id, delay, error) ORDER BY e.id
        ) AS ended
        WHERE jobs.id = ended.id AND jobs.claim_id = ended.claim_id
        RETURNING jobs.id, jobs.lock, jobs.queue, jobs.on_retry
    ), let_go AS (
        UPDATE lanes
        SET job_id = CASE WHEN again.on_retry = 'hold' THEN again.id END, worker_id = NULL, since = clock()
        FROM again WHERE lanes.lock = again.lock
    )
    SELECT array_agg(again.id) AS ids, array_agg(again.queue) AS queues,
           array_agg(again.lock) FILTER (
               WHERE again.lock IS NOT NULL AND again.on_retry = 'release' AND again.lock <> ALL (v_stopped)
           ) AS released
    INTO v_again FROM again;

    IF v_again.ids IS NOT NULL THEN
        PERFORM wake(v_again.queues || release_lanes(v_again.released));
        RETURN QUERY SELECT unnest(v_again.ids);
    END IF;
END $$;
