-- claim_further: more of the free jobs of which this worker has just claimed a batch, from where it left off, queue by queue and
-- priority by priority. What a full claim also looks at (lanes, due jobs, a higher priority, a job that came back) waits
-- for the next one; workers make one often enough.
--
-- It is cheaper, and its cost does not grow while some old transaction keeps finished jobs from being cleaned up: their
-- index entries lie in front of where it begins. Free jobs are taken by their own row, so it needs nothing else.
CREATE OR REPLACE FUNCTION claim_further(
    p_worker     uuid,
    p_queues     text[],
    p_priorities integer[],
    p_after      bigint[],    -- ids
    p_limit      integer
) RETURNS SETOF jobs
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
    v_ids bigint[];
BEGIN
    PERFORM require_registered(p_worker);
    SELECT array_agg(id) INTO v_ids FROM (
        SELECT free.id
        FROM unnest(p_queues, p_priorities, p_after) AS mark(queue, priority, id)
        CROSS JOIN LATERAL (
            SELECT jobs.id FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.queue = mark.queue AND jobs.priority = mark.priority AND jobs.id > mark.id
            ORDER BY jobs.id
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ) AS free
        ORDER BY mark.priority DESC, free.id
        LIMIT p_limit
    ) AS best;
    RETURN QUERY SELECT * FROM start_jobs(p_worker, v_ids);
END $$;
