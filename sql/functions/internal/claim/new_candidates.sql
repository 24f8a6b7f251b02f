-- Does the work of claim_candidates in a claim that looks only at jobs with ids above `since`, or
-- that came back with such a number. It reads at most 1,000 of each, whatever they are, by indexes
-- in that order, so its cost does not depend on what is in front.
CREATE OR REPLACE FUNCTION new_candidates(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_free       bigint[];
    v_tokens     bigint[];
    v_priorities integer[];
    v_limited    boolean[];
BEGIN
    SELECT array_agg(new.id) FILTER (WHERE new.lock IS NULL),
        array_agg(new.id) FILTER (WHERE new.lock IS NOT NULL AND (
            r.served IS NULL OR new.queue IN (SELECT unnest(r.served)))),
        coalesce(r.served, array_agg(DISTINCT new.queue), '{}')
    INTO v_free, v_tokens, r.queues
    FROM (
        (SELECT jobs.id, jobs.status, jobs.queue::text, jobs.lock, jobs.group_key FROM jobs
         WHERE jobs.id > r.since
         ORDER BY jobs.id LIMIT 1000)
        UNION ALL
        (SELECT jobs.id, jobs.status, jobs.queue::text, jobs.lock, jobs.group_key FROM jobs
         WHERE jobs.back_id > r.since AND jobs.back_id IS NOT NULL AND jobs.status = 'todo'
         ORDER BY jobs.back_id LIMIT 1000)
    ) AS new
    WHERE new.status = 'todo' AND new.group_key IS NULL;
    SELECT coalesce(array_agg(best.id), '{}'), array_agg(best.priority), array_agg(best.limited),
        coalesce(bool_or(best.limited), false)
    INTO r.ids, v_priorities, v_limited, r.limited
    FROM (
        SELECT jobs.id, jobs.priority, jobs.limit_key IS NOT NULL AS limited FROM jobs
        WHERE jobs.id = ANY (v_free) AND jobs.status = 'todo'
          -- A function: the planner must not find that an index of the front would do.
          AND num_nulls(jobs.lock, jobs.group_key) = 2
          AND jobs.queue::text IN (SELECT unnest(r.queues))
        ORDER BY jobs.priority DESC, jobs.id
        LIMIT r.wanted
        FOR UPDATE SKIP LOCKED
    ) AS best;
    IF v_tokens IS NOT NULL THEN
        r.windows := array_fill(0, ARRAY[cardinality(r.queues)]);
        r := lane_candidates(r, v_priorities, v_limited, v_tokens);
    END IF;
END $$;
