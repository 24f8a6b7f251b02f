-- claim: starts up to p_limit jobs for this worker (status `doing`), at most one of each lane.
--
-- Free jobs are taken by their own row (FOR UPDATE SKIP LOCKED), and a lane by its row in `lanes`.
-- Its head is read only after that, with a fresh snapshot: the job that was seen before may no
-- longer be the next. Lane candidates are read without row locks, which would make claims deadlock.
--
-- The cost does not grow with the number of waiting jobs: a claim looks at a window of tokens, and
-- takes those of busy lanes out of the index (`blocked`). The window widens in each round, so a few
-- calls clear away a burst of one lane's jobs. The last one looks past thousands of locked jobs.
--
-- A job of a paused task, or of a limit without room, is made to wait at its gate when a claim wins
-- its lane and finds it at the head (pass_gates). A job with a limit starts only if it can begin
-- now, or while half of its slots stay free (take_slots). Jobs with several lanes start one by one.
--
-- While jobs with a group wait, the groups take turns (see fair_candidates), and no job is claimed
-- ahead of its turn. p_turns is the setting inturn.turns after the worker's last claim.
--
-- With p_since, it looks only at jobs with higher ids, or that came back since, and not at what an
-- open snapshot keeps in front of the indexes, unless groups take turns or a queue is paused. What
-- becomes due or is given back, and jobs that commit late, are left to full claims.
CREATE OR REPLACE FUNCTION claim(
    p_worker uuid,
    p_queues text[],     -- NULL: all queues
    p_limit  integer,
    p_patient boolean DEFAULT false, -- return if another claim is clearing the front
    p_slots   integer DEFAULT NULL,  -- how many of the jobs can begin now; NULL: all
    p_turns   jsonb   DEFAULT NULL,  -- where the turns of the groups continue
    p_since   bigint  DEFAULT NULL,  -- look only at jobs with higher ids
    p_floors  jsonb   DEFAULT NULL,  -- as in finish
    p_horizon text    DEFAULT NULL
) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
DECLARE
    r         claim_round;
    v_started integer;
BEGIN
    r.now := clock();
    r.worker := p_worker;
    r.served := p_queues;
    r.asked := p_limit;
    r.slots := coalesce(p_slots, p_limit);
    r.turns := p_turns;
    IF p_horizon IS NOT NULL THEN
        r.floors := usable_floors(p_floors, p_horizon);
        r.watches := r.floors IS NULL;
    END IF;
    IF p_since IS NOT NULL THEN
        r.paused := begin_further(p_worker, p_queues);
    END IF;
    IF r.paused IS NULL THEN
        r := begin_claim(r);
    ELSE
        r.since := p_since;
        r.fair := false;
    END IF;
    r.wanted := r.asked;
    r.reach := 2 * r.asked;
    r.lanes_left := 512;   -- each keeps an advisory lock, and the server's lock table is finite
    r.lost := '{}';
    FOR round IN 1..4 LOOP
        r := look_ahead(r);
        IF cardinality(r.lanes) > 0 THEN
            r := win_heads(r);
        END IF;
        IF r.limited OR cardinality(r.paused) > 0 THEN
            r := pass_gates(r);
        END IF;
        IF cardinality(r.ids) > 0 THEN
            RETURN QUERY SELECT * FROM start_jobs(p_worker, r.ids, r.ahead, p_now => r.now);
            GET DIAGNOSTICS v_started = ROW_COUNT;
            r.wanted := r.wanted - v_started;
        END IF;
        -- Where no lane has a token, little else can make it look again.
        EXIT WHEN r.lanes IS NULL AND (r.wanted > 0 AND (r.short OR r.marked)) IS NOT TRUE;
        -- Most claims start just what they saw.
        IF r.behind IS NOT NULL OR cardinality(r.lanes) > 0 AND
            (array_eq(r.used, r.lanes) AND array_eq(r.heads, r.seen)) IS NOT TRUE THEN
            r := tidy_up(r);
        END IF;
        IF cardinality(r.several) > 0 OR r.shut IS NOT NULL THEN
            r := start_several(r);
            RETURN QUERY SELECT * FROM unnest(r.started);
        END IF;
        EXIT WHEN r.wanted <= 0 OR NOT may_find_more(r, p_patient);
        r := look_further(r, round + 1);
    END LOOP;
    IF r.fair THEN
        PERFORM set_config('inturn.turns', r.turns::text, true);
    END IF;
END $$;
