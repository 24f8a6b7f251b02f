-- claim_further: starts more free jobs after a batch that this worker has just claimed, from where
-- that claim stopped in each queue and priority. It leaves the rest to the next full claim: lanes,
-- due jobs, higher priorities, jobs that came back, and jobs of a paused task or of a limit that is
-- half used. Workers make full claims often enough. While jobs with a group wait or a queue is
-- paused, it starts nothing: a full claim respects turns and pauses.
--
-- It is cheaper than a full claim. Its cost does not grow while an old transaction keeps finished
-- jobs from being vacuumed, since their index entries lie before its starting point. Free jobs are
-- taken by their own row; the only other locks are those of gates (see take_slots).
CREATE OR REPLACE FUNCTION claim_further(
    p_worker     uuid,
    p_queues     text[],
    p_priorities integer[],
    p_after      bigint[],    -- ids: start behind these
    p_limit      integer
) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
DECLARE
    -- How many jobs to read and lock behind each mark. It must not lock more than it takes.
    v_shares integer[] := CASE WHEN cardinality(p_queues) > 1
        THEN front_shares(p_queues, p_limit, false, p_priorities, p_after)
        ELSE ARRAY[p_limit] END;
    v_paused  text[] := begin_further(p_worker, p_queues);   -- tasks that are paused
    v_ids     bigint[];
    v_limited boolean;
BEGIN
    IF v_paused IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(free.id) FILTER (WHERE free.task NOT IN (SELECT unnest(v_paused))),
        bool_or(free.limit_key IS NOT NULL)
    INTO v_ids, v_limited
    FROM unnest(p_queues, p_priorities, p_after, v_shares) AS mark(queue, priority, id, share)
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.limit_key, jobs.task FROM jobs
        WHERE jobs.status = 'todo' AND jobs.lock IS NULL AND jobs.group_key IS NULL
          AND jobs.queue = mark.queue AND jobs.priority = mark.priority AND jobs.id > mark.id
        ORDER BY jobs.id
        LIMIT mark.share
        FOR UPDATE SKIP LOCKED
    ) AS free;
    IF v_limited THEN
        v_ids := (take_slots(v_ids, 0, '{}', true)).ids;
    END IF;
    -- Of a limit with a rate, take_slots has let none pass.
    RETURN QUERY SELECT * FROM start_jobs(p_worker, v_ids, false);
END $$;
