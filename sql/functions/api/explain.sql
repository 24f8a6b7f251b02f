-- explain: returns why a job is not running. Each reason is a row: a keyword, a description, and
-- what would unblock the job. That advice never makes matters worse: it aborts no healthy job, runs
-- no job twice, and starts none before its time. `ready` alone means that the next claim of a
-- worker that serves its queue takes the job. claim.sql and this file must agree; a test compares
-- them in both directions.
CREATE OR REPLACE FUNCTION explain(p_id bigint)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_job   jobs;
    v_waits boolean := false;   -- for something that a worker with a free slot would not change
    v_found boolean := false;
BEGIN
    SELECT * INTO v_job FROM jobs WHERE id = p_id;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'finished', f.status || ' at ' || f.finished_at || CASE
                WHEN EXISTS (SELECT FROM lanes WHERE lanes.lock = f.lock AND failed_job_id = p_id)
                THEN '; lane ' || f.lock || ' is halted until you retry or skip this job'
                ELSE '' END,
            CASE WHEN f.status = 'succeeded' THEN NULL
                 WHEN EXISTS (SELECT FROM lanes WHERE lanes.lock = f.lock AND failed_job_id = p_id)
                 THEN once_known(f.queue, f.task,
                     'queue lanes retry-head ' || shell_argument(f.lock),
                     'once the cause is fixed: ')
                 ELSE once_known(f.queue, f.task, 'queue jobs retry ' || p_id) END
        FROM finished_jobs AS f WHERE f.id = p_id ORDER BY f.finished_at DESC LIMIT 1;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'unknown', 'there is no job ' || p_id, NULL;
        END IF;
        RETURN;
    END IF;
    IF v_job.status = 'doing' THEN
        RETURN QUERY SELECT
            CASE job.status WHEN 'claimed' THEN 'claimed' ELSE 'running' END,
            'since ' || v_job.started_at || CASE job.status
                WHEN 'claimed' THEN ' by worker ' || job.worker || ', which runs other jobs first'
                ELSE ', attempt ' || v_job.attempts END,
            ending_of_run(p_id)
        FROM claimed_jobs AS job WHERE job.worker_id = v_job.worker_id AND job.id = p_id;
        RETURN QUERY SELECT 'progress', done || coalesce(' of ' || total, '')
            || ' at ' || updated_at || coalesce(': ' || text, ''), NULL
        FROM progress WHERE job_id = p_id AND fence = v_job.fence;
        RETURN QUERY SELECT * FROM explain_holder(v_job.worker_id);
        -- A running job is locked for a moment whenever its worker reports about it.
        RETURN QUERY SELECT * FROM explain_busy(p_id) AS busy WHERE busy.unblock IS NOT NULL;
        RETURN;
    END IF;

    IF v_job.expires_at <= clock() AND NOT v_job.was_attempted THEN
        RETURN QUERY SELECT 'expired',
            'at ' || v_job.expires_at || '; the next claim of any worker cancels it', NULL;
        RETURN QUERY SELECT * FROM explain_busy(p_id);
        RETURN;
    END IF;
    IF v_job.status = 'scheduled' AND v_job.scheduled_at > clock() THEN
        RETURN QUERY SELECT
            CASE WHEN v_job.attempts = 0 THEN 'scheduled' ELSE 'retry wait' END,
            'until ' || v_job.scheduled_at || CASE WHEN v_job.attempts = 0 THEN ''
                ELSE ', after attempt ' || v_job.attempts END,
            CASE WHEN v_job.attempts > 0
                 THEN once_known(v_job.queue, v_job.task, 'queue jobs retry ' || p_id) END;
        v_waits := true;
    END IF;
    RETURN QUERY
    SELECT * FROM explain_pause(v_job.queue, v_job.task)
    UNION ALL SELECT * FROM explain_limit(v_job) WHERE v_job.limit_key IS NOT NULL
    UNION ALL SELECT * FROM explain_parents(p_id) WHERE v_job.has_parents
    UNION ALL SELECT * FROM explain_batch(v_job)
        WHERE v_job.has_parents AND v_job.batch_id IS NOT NULL;
    v_waits := v_waits OR FOUND;
    IF v_job.lock IS NOT NULL AND v_job.status <> 'pending' THEN
        FOR reason, detail, unblock IN
            SELECT found.* FROM unnest(lanes_of(v_job.lock, v_job.locks)) AS lane
            CROSS JOIN LATERAL explain_lane(v_job, lane) AS found
        LOOP
            RETURN NEXT;
            v_waits := v_waits OR reason NOT IN ('lane head waits', 'lane retrying')
                OR unblock IS NOT NULL;
            v_found := true;
        END LOOP;
    END IF;
    RETURN QUERY SELECT * FROM explain_busy(p_id);
    v_waits := v_waits OR FOUND;
    v_found := v_found OR v_waits;
    IF v_job.group_key IS NOT NULL AND v_job.status = 'todo' AND NOT v_found THEN
        RETURN QUERY SELECT * FROM explain_turn(v_job);
        v_found := FOUND;
    END IF;
    FOR reason, detail, unblock IN
        SELECT * FROM explain_workers(v_job.queue, v_job.task, v_waits)
    LOOP
        RETURN NEXT;
        v_found := true;
        IF reason = 'slots busy' AND v_job.group_key IS NULL AND v_job.status = 'todo' THEN
            RETURN QUERY SELECT * FROM explain_line(v_job);
        END IF;
    END LOOP;
    IF v_found AND v_job.batch_id IS NOT NULL THEN
        RETURN QUERY SELECT 'in batch', 'batch ' || id || ' (' || name || ') waits for it',
            'queue batches show ' || id
        FROM batches WHERE id = v_job.batch_id AND ended_at IS NULL
            AND callback_id IS DISTINCT FROM p_id;
    END IF;
    IF NOT v_found THEN
        RETURN QUERY SELECT 'ready', 'nothing blocks it', NULL;
    END IF;
END $$;
