-- rescue: sends the jobs of a worker without a row back to wait for their next attempt, before
-- everything else in their lanes: at once after the first loss, staggered after later ones.
-- (declare_dead deletes the rows of dead workers, and unregister_worker that of a worker that
-- ends.) It is a retry on behalf of the dead worker and fenced like any other. A job that its
-- worker finishes first is left alone. If the worker was only asleep, its later reports are
-- refused.
--
-- A job may be what kills its workers. When it has been lost more than p_max_lost times (NULL: no
-- limit), it fails, and its lane continues or halts as after any failure. There is no way to tell
-- which of a dead worker's jobs killed it, begun or not. Therefore, jobs that are lost again come
-- back in twelve groups, one second apart. Each round leaves about 1/12 of the innocent jobs on the
-- culprit's worker. A worker has at most 1,000 jobs in hand besides those it runs, so after three
-- rounds no innocent job is left beside the culprit.
--
-- A job whose worker was asked to abort it ends as aborted: a person who killed a process because
-- its job hung does not want it to hang again elsewhere.
--
-- Returns the jobs taken back, and the status with which each has ended, or NULL. Two rescuers at
-- once do no harm. The call is bounded, and the next call takes what is left, including jobs that
-- an open transaction has locked.
CREATE OR REPLACE FUNCTION rescue(
    p_max_lost integer DEFAULT 5,
    p_worker   uuid    DEFAULT NULL,   -- only this worker, even if its row still exists
    p_lost     boolean DEFAULT true,   -- false: the jobs do not count as lost
    p_error    text    DEFAULT NULL    -- what ended the worker, if it could tell
) RETURNS TABLE (id bigint, worker_id uuid, ended_as job_status)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_material = off
AS $$
DECLARE
    v_seen record;
    v_ours bigint[];
    v_mine record;
    v_lost record;
BEGIN
    WITH RECURSIVE owner(worker_id) AS (
        (SELECT jobs.worker_id FROM jobs WHERE status = 'doing' ORDER BY jobs.worker_id LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.worker_id FROM jobs
                WHERE status = 'doing' AND jobs.worker_id > owner.worker_id ORDER BY jobs.worker_id
                LIMIT 1)
        FROM owner WHERE owner.worker_id IS NOT NULL
    ), orphan AS (
        SELECT jobs.id, jobs.claim_id, jobs.worker_id,
               CASE WHEN p_lost THEN 1 + (
                   SELECT count(*) FROM jsonb_array_elements(jobs.errors) AS error
                   WHERE error ? 'lost') ELSE 0 END AS times
        FROM owner
        CROSS JOIN LATERAL (
            SELECT j.id, j.claim_id, j.worker_id, j.errors FROM jobs AS j
            WHERE j.status = 'doing' AND j.worker_id = owner.worker_id
            LIMIT 2000
        ) AS jobs
        WHERE CASE WHEN p_worker IS NULL
                   THEN NOT EXISTS (SELECT FROM workers WHERE workers.id = owner.worker_id)
                   ELSE owner.worker_id = p_worker END
        LIMIT 2000
    )
    SELECT array_agg(o.id) AS ids, array_agg(o.claim_id) AS claims,
        array_agg(o.worker_id) AS workers, array_agg(times) AS times
    INTO v_seen FROM orphan AS o;
    IF v_seen.ids IS NULL THEN
        RETURN;
    END IF;

    -- Lock the rows in one order before the two calls below. Otherwise a session that finishes
    -- jobs of both calls would deadlock with us.
    v_ours := mask_ids(v_seen.ids, (SELECT busy FROM lock_lanes(v_seen.ids, v_seen.claims)));
    -- Abort requests are read under the lock, so that none is missed.
    SELECT array_agg(locked.id) AS ids, array_agg(locked.id) FILTER (WHERE abort) AS aborted
    INTO v_mine FROM (
        SELECT jobs.id, jobs.abort FROM jobs
        WHERE jobs.id = ANY (v_ours) ORDER BY jobs.id FOR UPDATE SKIP LOCKED) AS locked;

    WITH judged AS (
        SELECT *,
               CASE WHEN orphan.id IN (SELECT unnest(v_mine.aborted)) THEN 'aborted'::job_status
                    WHEN coalesce(times > p_max_lost, false) THEN 'failed' END AS ending,
               CASE WHEN times > 1
                    THEN (row_number() OVER (PARTITION BY times > 1 ORDER BY orphan.id) - 1) % 12
                    ELSE 0 END AS turn,
               CASE WHEN times > 0 THEN '{"lost": true}' ELSE '{}' END::jsonb
                   || CASE WHEN p_error IS NOT NULL THEN '{"crashed": true}' ELSE '{}' END::jsonb
                   AS error
        FROM unnest(v_seen.ids, v_seen.claims, v_seen.workers, v_seen.times)
            AS orphan(id, claim_id, worker_id, times)
        -- Not a plain IN, which could become a nested loop over both lists.
        WHERE coalesce(orphan.id IN (SELECT unnest(v_mine.ids)), false)
    )
    SELECT array_agg(j.id) FILTER (WHERE ending IS NULL) AS ids,
           array_agg(j.claim_id) FILTER (WHERE ending IS NULL) AS claims,
           array_agg(turn * interval '1 s') FILTER (WHERE ending IS NULL) AS delays,
           array_agg(error
               || jsonb_build_object('error',
                   coalesce(p_error, 'lost: worker ' || j.worker_id || ' is gone')))
               FILTER (WHERE ending IS NULL) AS errors,
           array_agg(j.id) FILTER (WHERE ending IS NOT NULL) AS ended_ids,
           array_agg(j.claim_id) FILTER (WHERE ending IS NOT NULL) AS ended_claims,
           array_agg(ending) FILTER (WHERE ending IS NOT NULL) AS statuses,
           array_agg(error
               || jsonb_build_object('error', CASE ending
                   WHEN 'aborted' THEN 'aborted: worker ' || j.worker_id || ' is gone'
                   ELSE concat('lost ', times, ' times: its workers died', E'\n' || p_error) END))
               FILTER (WHERE ending IS NOT NULL) AS last_errors
    INTO v_lost FROM judged AS j;

    IF v_lost.ended_ids IS NOT NULL THEN
        RETURN QUERY
        SELECT ended.finished_id, lost.worker_id, as_what.status
        FROM finish(NULL, NULL, 0, v_lost.ended_ids, v_lost.ended_claims, v_lost.statuses,
            v_lost.last_errors) AS ended
        JOIN unnest(v_seen.ids, v_seen.workers) AS lost(id, worker_id)
            ON lost.id = ended.finished_id
        JOIN unnest(v_lost.ended_ids, v_lost.statuses) AS as_what(id, status)
            ON as_what.id = ended.finished_id;
    END IF;
    RETURN QUERY
    SELECT taken.id, lost.worker_id, NULL::job_status
    FROM retry(v_lost.ids, v_lost.claims, v_lost.delays, v_lost.errors) AS taken
    JOIN unnest(v_seen.ids, v_seen.workers) AS lost(id, worker_id) ON lost.id = taken.id
    WHERE NOT taken.busy;
END $$;
