-- resume_task: lets a paused task continue. Returns false if it was not paused. Its jobs start in
-- the order in which they would have started.
--
-- It only marks the pause as over, so it is quick however many jobs were set aside. The next claims
-- wake them, as many at a time as a claim can (see resume_tasks).
CREATE OR REPLACE FUNCTION resume_task(p_task text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_pause task_pauses;
BEGIN
    PERFORM require_read_committed();
    UPDATE task_pauses SET until = clock(), look_at = NULL
    WHERE task = p_task AND (until > clock()) IS NOT FALSE
    RETURNING * INTO v_pause;
    IF v_pause.task IS NULL THEN
        RETURN false;
    END IF;
    PERFORM audit('resume-task', p_task, 0, p_by, v_pause.reason);
    PERFORM notify_workers(NULL);
    RETURN true;
END $$;
