-- Does the work of block_behind for jobs that have `locks`. A job may sleep only if one of its
-- lanes is sure to wake it and that lane's row is locked: the lane is held, or another job goes
-- first there. The caller has won the lanes in p_won, whose head is another job. It is about to
-- give back the lanes in p_new, so those are no reason to sleep. Returns the blocked jobs.
--
-- A job that keeps its lanes may sleep only in a stopped one, where clear_stop wakes it. A job with
-- a limit may have been woken for a slot, which must pass to the next one.
CREATE OR REPLACE FUNCTION block_in_lanes(
    p_ids bigint[], p_won text[] DEFAULT '{}', p_new text[] DEFAULT '{}'
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_wanted text[];
    v_held   text[];
    v_behind bigint[];
    v_gates  text[];
    v_result bigint[];
BEGIN
    v_wanted := ARRAY(
        SELECT DISTINCT lane FROM jobs CROSS JOIN LATERAL unnest(jobs.locks) AS lane
        WHERE jobs.id = ANY (p_ids));
    v_held := ARRAY(
        SELECT lanes.lock FROM lanes
        WHERE lanes.lock = ANY (v_wanted) AND lanes.lock <> ALL (p_new)
        FOR UPDATE SKIP LOCKED);
    -- A new statement: from here until we commit, these lanes stay as we see them.
    v_behind := ARRAY(
        SELECT jobs.id FROM jobs
        WHERE jobs.id = ANY (p_ids) AND jobs.status = 'todo' AND (
            jobs.keeps_lanes IS NULL AND jobs.locks && p_won
            OR EXISTS (
                SELECT FROM lanes AS held
                WHERE held.lock = ANY (jobs.locks) AND held.lock IN (SELECT unnest(v_held))
                    AND CASE WHEN jobs.keeps_lanes OR held.job_id = jobs.id
                             THEN held.stopped IS NOT NULL
                             ELSE NOT lets_start(held, jobs.id, jobs.shared) END)));
    WITH behind AS MATERIALIZED (
        SELECT jobs.id FROM jobs
        WHERE jobs.id = ANY (v_behind) AND jobs.status = 'todo'
        FOR UPDATE SKIP LOCKED
    ), asleep AS (
        UPDATE jobs SET status = 'blocked' WHERE jobs.id = ANY (ARRAY(SELECT behind.id FROM behind))
        RETURNING jobs.id, limit_gate(jobs.limit_key) AS gate
    )
    SELECT coalesce(array_agg(asleep.id), '{}'),
        array_agg(DISTINCT asleep.gate) FILTER (WHERE asleep.gate IS NOT NULL)
    INTO v_result, v_gates FROM asleep;
    PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;
    RETURN v_result;
END $$;
