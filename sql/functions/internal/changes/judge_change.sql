-- Tells whether a bulk may change a job: `done`, `asked` or why not (see change_jobs). The caller
-- has locked the job and its lanes. It may have ended or started again since it was found. If it
-- has ended, it did so between p_from and p_until.
CREATE OR REPLACE FUNCTION judge_change(
    p_action text, p_id bigint, p_filter job_filter, p_abort boolean,
    p_from timestamptz, p_until timestamptz
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_status job_status;
    v_at     timestamptz;
    v_queue  text;
    v_kept   boolean;   -- its lanes wait for it
BEGIN
    SELECT status, queue, keeps_lanes IS NOT NULL OR EXISTS (
            SELECT FROM lanes WHERE lanes.lock = ANY (lanes_of(jobs.lock, locks))
                AND lanes.job_id = jobs.id)
    INTO v_status, v_queue, v_kept FROM jobs WHERE id = p_id;
    IF v_status IS NOT NULL THEN
        RETURN CASE
            WHEN v_status = 'doing' AND p_action = 'cancel' AND p_abort THEN 'asked'
            WHEN v_status = 'doing' THEN 'running'
            WHEN v_queue <> (p_filter).queue THEN 'changed'
            WHEN p_action = 'move' AND v_kept THEN 'retrying'
            WHEN p_action = 'retry' AND v_status NOT IN ('scheduled', 'pending') THEN 'waiting'
            WHEN (p_filter).statuses
                && '{todo,blocked,limited,scheduled,pending,claimed,doing}' THEN 'done'
            ELSE 'changed' END;
    END IF;
    SELECT status, finished_at INTO v_status, v_at FROM finished_jobs
    WHERE id = p_id AND finished_at BETWEEN p_from AND p_until
    ORDER BY finished_at DESC LIMIT 1;
    RETURN CASE
        WHEN p_action IN ('cancel', 'move') THEN 'ended'
        WHEN v_status <> ALL ((p_filter).statuses) OR v_at >= (p_filter).before THEN 'changed'
        ELSE 'done' END;
END $$;
