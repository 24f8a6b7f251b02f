-- Returns whether a job that is stored as scheduled waits for other jobs rather than for its time.
-- It is stored as pending only once a claim has met it. A claim that finds a parent locked looks
-- again within two seconds (see await_parents). The planner inlines it.
CREATE OR REPLACE FUNCTION is_pending(p_job jobs) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_job.has_parents IS TRUE AND p_job.scheduled_at <= clock() + interval '2 s'
$$;
