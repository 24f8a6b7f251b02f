-- Sets jobs `doing`: the only function that does. The caller holds what makes it safe: the rows of
-- free jobs, and the lane rows of lane jobs. Each call is a new claim and starts a job at most
-- once, so id and claim identify an attempt. The claim is random, because a counter could repeat a
-- number after a failover. One claim covers the whole call, because random numbers are expensive.
--
-- A job that has expired does not start. The caller must not pass one in a lane, because the lane
-- would be held for nothing. (The clock stands still during a call.)
--
-- A job with a limit starts at the time for which take_slots charged its token. That may be after
-- this call began, if a later claim had the key first. Otherwise the start would count towards a
-- time whose tokens others have taken.
CREATE OR REPLACE FUNCTION start_jobs(
    p_worker uuid, p_ids bigint[],
    p_ahead   boolean,   -- some may take a token that comes later than p_now
    p_handed  boolean DEFAULT false,   -- some have been given the slot that they waited for
    p_now     timestamptz DEFAULT clock()
) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_claim uuid := gen_random_uuid();
    v_late  bigint[];        -- jobs that start later than this call
    v_times timestamptz[];   -- when their tokens are there
BEGIN
    IF cardinality(p_ids) > 0 IS NOT TRUE THEN
        RETURN;
    END IF;
    -- A promoted standby may not know the last fences of the old primary. A session checks only
    -- once, because no session from before the promotion can get here.
    IF current_setting('inturn.timeline', true) IS DISTINCT FROM 'seen' THEN
        IF (nextval('fences') >> 40) & 65535::bigint <> timeline() THEN
            PERFORM raise_fences(timeline());
        END IF;
        PERFORM set_config('inturn.timeline', 'seen', false);
    END IF;
    IF p_ahead THEN
        SELECT array_agg(jobs.id), array_agg(gate.refilled_at) INTO v_late, v_times
        FROM jobs CROSS JOIN LATERAL (
            SELECT gates.refilled_at FROM gates WHERE gates.key = limit_gate(jobs.limit_key)
            ORDER BY gates.version DESC LIMIT 1
        ) AS gate
        WHERE jobs.id = ANY (p_ids) AND gate.refilled_at > p_now;
    END IF;
    RETURN QUERY
    UPDATE jobs
    SET status = 'doing',
        claim_id = v_claim,
        fence = nextval('fences'),
        worker_id = p_worker,
        started_at = CASE WHEN v_late IS NULL THEN p_now
                          ELSE coalesce(v_times[array_position(v_late, jobs.id)], p_now) END,
        attempts = jobs.attempts + 1
    WHERE jobs.id = ANY (p_ids)
        AND (has_status(jobs.status, 'todo') OR has_status(jobs.status, 'blocked')
            OR (p_handed AND has_status(jobs.status, 'limited')))
        AND (jobs.expires_at IS NULL OR jobs.was_attempted OR jobs.expires_at::timestamptz > p_now)
    RETURNING jobs.*;
END $$;
