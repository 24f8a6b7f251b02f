-- The only place where a job becomes `doing`. The caller holds what makes it safe: the rows of
-- free jobs, the lane rows of lane jobs. Each call is a new claim, and one call never starts two
-- attempts at one job, so id and claim name an attempt. The claim is random and not counted,
-- since a counter can give the same number twice after a failover. There is one claim for a whole
-- call, because random numbers are expensive.
--
-- A job that has expired does not start. The caller must not ask for one in a lane, because it
-- would hold the lane for nothing. (The clock stands still during a call.)
--
-- A job with a limit starts at the time for which take_slots has charged its token. This may be
-- after the call began, if another claim began later and had the key first. Otherwise its start
-- would count for a time whose tokens others have taken.
CREATE OR REPLACE FUNCTION start_jobs(p_worker uuid, p_ids bigint[]) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_claim uuid := gen_random_uuid();
    v_now   timestamptz := clock();
BEGIN
    IF p_ids IS NULL OR p_ids = '{}' THEN
        RETURN;
    END IF;
    -- A promoted standby may not know the last fences that the old primary gave. A session looks
    -- only once, because no session can come here before the promotion.
    IF current_setting('inturn.timeline', true) IS DISTINCT FROM 'seen' THEN
        IF (nextval('fences') >> 40) & 65535 <> timeline() THEN
            PERFORM raise_fences(timeline());
        END IF;
        PERFORM set_config('inturn.timeline', 'seen', false);
    END IF;
    RETURN QUERY
    UPDATE jobs
    SET status = 'doing',
        claim_id = v_claim,
        fence = nextval('fences'),
        worker_id = p_worker,
        started_at = CASE WHEN jobs.limit_key IS NULL THEN v_now ELSE greatest(v_now,
            (SELECT refilled_at FROM limit_keys WHERE key = jobs.limit_key)) END,
        attempts = jobs.attempts + 1
    WHERE jobs.id = ANY (p_ids) AND jobs.status IN ('todo', 'blocked')
        AND (jobs.expires_at IS NULL OR jobs.was_attempted OR jobs.expires_at > v_now)
    RETURNING jobs.*;
END $$;
