-- Makes one step of a bulk of lanes, at most 1,000, in one short transaction. Returns the outcome
-- for each:
--   done     it is changed
--   changed  it is no longer in one of these states, or waits for a job with another error
--   halted   it is halted, so it cannot be paused
--   running  its next job is running, so it cannot be skipped
--   nothing  it waits for no job that could be retried or skipped
--   busy     it, or another lane of its next job, is locked by another session: try it again
-- Never waits, and checks each lane again under its lock.
CREATE OR REPLACE FUNCTION change_lanes(
    p_action text,      -- resume, retry-head, skip-head, pause
    p_locks  text[],
    p_states text[],    -- NULL: any state
    p_by     text        DEFAULT NULL,
    p_reason text        DEFAULT NULL,
    p_until  timestamptz DEFAULT NULL,
    p_error  text        DEFAULT NULL
) RETURNS TABLE (lock text, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_wanted text[];
    v_held   text[];
BEGIN
    PERFORM require_settings();
    IF coalesce(p_action, '') <> ALL ('{resume,retry-head,skip-head,pause}')
        OR cardinality(p_locks) > 1000 THEN
        RAISE EXCEPTION 'action: must be resume, retry-head, skip-head or pause, of at most 1,000 '
            'lanes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    LOCK TABLE finished_jobs IN ROW EXCLUSIVE MODE;   -- as in change_jobs
    v_wanted := p_locks;
    IF p_action IN ('retry-head', 'skip-head') THEN
        v_wanted := p_locks || ARRAY(
            SELECT lane FROM unnest(p_locks) AS asked(lock)
            CROSS JOIN LATERAL unnest((next_job(asked.lock)).locks) AS lane);
    END IF;
    v_held := try_lock_lanes(v_wanted);
    RETURN QUERY
    SELECT asked.lock, CASE
        WHEN asked.lock NOT IN (SELECT unnest(v_held)) OR p_action IN ('retry-head', 'skip-head')
            AND NOT coalesce((next_job(asked.lock)).locks, '{}') <@ v_held THEN 'busy'
        ELSE change_lane(p_action, asked.lock, p_states, p_by, p_reason, p_until,
            p_error) END
    FROM (SELECT DISTINCT lock COLLATE "C" AS lock FROM unnest(p_locks) AS lock ORDER BY 1)
        AS asked;
    PERFORM reopen_lane(lane) FROM unnest(v_held) AS lane;
END $$;
