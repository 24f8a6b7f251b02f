-- Returns the reason if a job's limit does not let it start: all slots are taken, or a token has to
-- come first. A job that was woken, and finds a slot, has no reason here.
CREATE OR REPLACE FUNCTION explain_limit(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'limited',
        CASE WHEN own.used >= rule.slots
             THEN own.used || ' jobs of limit ' || p_job.limit_key || ' run, and '
                 || rule.slots || ' may'
             WHEN own.look_at > clock()
             THEN 'limit ' || p_job.limit_key || ' lets ' || rule.rate || ' start in '
                 || rule.period || '; the next at ' || own.look_at
             ELSE 'limit ' || p_job.limit_key || ' lets it go on at the next claim' END,
        NULL
    FROM limit_keys AS own, find_limit(p_job.limit_key) AS rule
    WHERE own.key = p_job.limit_key
        AND (p_job.status = 'limited' OR own.used >= rule.slots)
$$;
