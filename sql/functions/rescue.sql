-- rescue: workers whose heartbeat is late are dead, and what a worker without a row was doing goes back to the head of its
-- lane, at once. It is a retry on behalf of the dead, fenced like any other: a job that its worker finishes meanwhile
-- is left alone, and what a worker does that was only asleep is refused afterwards.
--
-- Returns the jobs taken back. Two rescuers at once do no harm. Bounded: what is left goes with the next call.
CREATE OR REPLACE FUNCTION rescue(p_after interval /* NULL: nobody dies now */) RETURNS TABLE (id bigint, worker_id uuid)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_lost record;
BEGIN
    DELETE FROM workers WHERE heartbeat_at < clock() - p_after;

    WITH RECURSIVE owner(worker_id) AS (
        (SELECT jobs.worker_id FROM jobs WHERE status = 'doing' ORDER BY jobs.worker_id LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.worker_id FROM jobs
                WHERE status = 'doing' AND jobs.worker_id > owner.worker_id ORDER BY jobs.worker_id LIMIT 1)
        FROM owner WHERE owner.worker_id IS NOT NULL
    ), orphan AS (
        SELECT jobs.id, jobs.claim_id, jobs.worker_id
        FROM owner JOIN jobs ON jobs.status = 'doing' AND jobs.worker_id = owner.worker_id
        WHERE NOT EXISTS (SELECT FROM workers WHERE workers.id = owner.worker_id)
        LIMIT 1000
    )
    SELECT array_agg(o.id) AS ids, array_agg(o.claim_id) AS claims, array_agg(o.worker_id) AS workers,
           array_agg(interval '0') AS delays,
           array_agg(jsonb_build_object('at', clock(), 'error', 'lost: worker ' || o.worker_id || ' is gone')) AS errors
    INTO v_lost FROM orphan AS o;

    RETURN QUERY
    SELECT taken.id, lost.worker_id
    FROM retry(v_lost.ids, v_lost.claims, v_lost.delays, v_lost.errors) AS taken
    JOIN unnest(v_lost.ids, v_lost.workers) AS lost(id, worker_id) ON lost.id = taken.id;
END $$;
