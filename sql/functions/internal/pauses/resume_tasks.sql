-- Wakes jobs that were set aside for a pause that is over, the best p_limit of each task: they
-- become `todo`. The row of the pause is deleted with the last of them. Bounded. Never waits: what
-- is locked is skipped, and a later call looks again.
--
-- The row is locked before the jobs are looked for, in a new statement (see set_aside).
CREATE OR REPLACE FUNCTION resume_tasks(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_task   text;
    v_ids    bigint[];
    v_queues text[];
BEGIN
    FOR v_task IN
        SELECT task FROM task_pauses WHERE coalesce(look_at, until) <= clock()
        ORDER BY until LIMIT 10 FOR UPDATE SKIP LOCKED
    LOOP
        v_ids := ARRAY(
            SELECT id FROM jobs WHERE status = 'paused' AND task = v_task
            ORDER BY priority DESC, id LIMIT p_limit FOR UPDATE SKIP LOCKED);
        WITH woken AS (
            UPDATE jobs SET status = 'todo' WHERE jobs.id = ANY (v_ids) RETURNING jobs.queue::text
        )
        SELECT array_agg(DISTINCT queue) INTO v_queues FROM woken;
        IF (SELECT true FROM jobs WHERE status = 'paused' AND task = v_task LIMIT 1) IS NULL THEN
            DELETE FROM task_pauses WHERE task = v_task;
        ELSIF v_ids = '{}' THEN
            UPDATE task_pauses SET look_at = clock() + interval '1 s' WHERE task = v_task;
        END IF;
        PERFORM notify_workers(v_queues) WHERE v_queues IS NOT NULL;
    END LOOP;
END $$;
