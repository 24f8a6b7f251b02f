-- Sets jobs `blocked` that a claim saw in front and could not start because their lane is held, so that the next claim
-- does not meet them again. Returns how many; NULL: a claim of the same queues is at it, and what it leaves is met the next
-- time. Two that put the same jobs behind would each look through all of them, and keep whoever is to finish in those lanes
-- waiting for both.
--
-- Only while holding that lane's row: its holder must take the same lock before it looks for the next job, so it either sees
-- the job that we blocked or makes us find the lane free. Without the lock both can conclude that the other will wake it,
-- and the job sleeps for ever. Never waits (SKIP LOCKED): what is skipped stays `todo` and is met again.
CREATE OR REPLACE FUNCTION block_behind(p_queues text[], p_ids bigint[], p_locks text[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_result bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', 'inturn block_behind', current_schema(), p_queues::text), 0)) THEN
        RETURN NULL;
    END IF;

    WITH held AS MATERIALIZED (
        SELECT seen.id
        FROM unnest(p_ids, p_locks) AS seen(id, lock) JOIN lanes ON lanes.lock = seen.lock
        -- The job that a retrying lane waits for stays its token. A stopped lane needs none: resume makes one.
        WHERE lanes.job_id IS DISTINCT FROM seen.id OR lanes.stopped IS NOT NULL
        FOR UPDATE OF lanes SKIP LOCKED
    ), touched AS MATERIALIZED (
        -- A user's open transaction may have one locked: we would wait for it, and the lane's owner for us.
        SELECT jobs.id FROM held JOIN jobs ON jobs.id = held.id WHERE is_touched(jobs.xmin, jobs.xmax)
        FOR UPDATE OF jobs SKIP LOCKED
    ), blocked AS (
        UPDATE jobs SET status = 'blocked' FROM held
        WHERE jobs.id = held.id AND jobs.status = 'todo'
          AND (NOT is_touched(jobs.xmin, jobs.xmax) OR jobs.id IN (SELECT id FROM touched))
        RETURNING 1
    )
    SELECT count(*) INTO v_result FROM blocked;
    RETURN v_result;
END $$;
