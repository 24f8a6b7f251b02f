-- Sets those of these jobs aside whose task is paused (p_tasks), so that no claim meets them again
-- before the pause is over: they become `paused`, keep their place in their lanes, and wait for
-- resume_tasks. Returns all of them, including those that it could not set aside: the caller must
-- start none. The caller holds the lanes of the jobs, or their rows, and gives the lanes back.
--
-- The row of the pause stays locked until the claim commits, with a lock that others can share. A
-- session that deletes the row locks it before it looks for jobs set aside. Either it sees this
-- job, or we do not get the row and leave the job as it is. Never waits.
--
-- A job with a limit may have been woken for a slot, which must pass to the next one.
CREATE OR REPLACE FUNCTION set_aside(p_ids bigint[], p_tasks text[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_ids   bigint[] := ARRAY(
        SELECT id FROM jobs WHERE id = ANY (p_ids) AND task IN (SELECT unnest(p_tasks)));
    v_sure  text[];   -- tasks whose rows we have locked
    v_mine  bigint[];
    v_keys  text[];
BEGIN
    IF v_ids = '{}' THEN
        RETURN v_ids;
    END IF;
    v_sure := ARRAY(
        SELECT task FROM task_pauses WHERE task IN (SELECT unnest(p_tasks))
        FOR KEY SHARE SKIP LOCKED);
    v_mine := ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY (v_ids) AND task IN (SELECT unnest(v_sure))
            AND status IN ('todo', 'blocked', 'limited')
        FOR UPDATE SKIP LOCKED);
    WITH aside AS (
        UPDATE jobs SET status = 'paused' WHERE jobs.id = ANY (v_mine)
        RETURNING jobs.limit_key::text
    )
    SELECT array_agg(DISTINCT limit_key) INTO v_keys FROM aside WHERE limit_key IS NOT NULL;
    PERFORM leave_looks(v_keys) WHERE v_keys IS NOT NULL;
    RETURN v_ids;
END $$;
