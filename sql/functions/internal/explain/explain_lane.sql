-- Returns the reasons in one of its lanes that keep a job from running. If the job has several
-- lanes, or shares one, each reason names the lane.
CREATE OR REPLACE FUNCTION explain_lane(p_job jobs, p_lock text)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane  lanes;
    v_first jobs;
    v_where text := CASE WHEN p_job.locks IS NOT NULL THEN ', in lane ' || p_lock ELSE '' END;
    v_later boolean;            -- that job is not due yet (a due one stays scheduled until a claim)
    v_retry text;               -- the command that retries the job that halted the lane
    v_other text;               -- another lane that this job waits for
    v_shared boolean;           -- it waits for jobs that share this lane
    v_paused text;              -- 'queue paused' or 'task paused'
    v_stops boolean := false;   -- a free slot would not be enough to start it
BEGIN
    SELECT * INTO v_lane FROM lanes WHERE lock = p_lock;
    IF v_lane.stopped IS NOT NULL
        AND (v_lane.stopped_until IS NULL OR v_lane.stopped_until > clock()) THEN
        v_retry := (
            SELECT once_known(queue, task, 'queue lanes retry-head ' || shell_argument(p_lock),
                'once the cause is fixed: ')
            FROM finished_jobs WHERE id = v_lane.failed_job_id AND v_lane.stopped = 'halted'
            LIMIT 1);
        RETURN QUERY SELECT
            'lane ' || v_lane.stopped,
            'since ' || v_lane.stopped_at || ' by ' || v_lane.stopped_by
                || coalesce(' until ' || v_lane.stopped_until, '')
                || v_where || coalesce(': ' || v_lane.stop_reason, '')
                || CASE WHEN v_retry IS NULL THEN '' ELSE '; skip-head gives up that job' END,
            coalesce(v_retry, 'queue lanes resume ' || shell_argument(p_lock));
        v_stops := true;
    END IF;
    IF p_job.keeps_lanes AND v_lane.readers IS NOT NULL THEN
        RETURN;
    ELSIF v_lane.worker_id IS NOT NULL
        OR (v_lane.readers IS NOT NULL AND coalesce(p_lock <> ALL (p_job.shared), true)) THEN
        RETURN QUERY SELECT * FROM explain_held(
            v_lane, v_where || place_in_line(p_job, p_lock));
        RETURN;
    END IF;

    IF v_lane.look_at > clock() AND v_lane.readers IS NULL THEN
        RETURN QUERY SELECT 'lane delayed',
            'an open transaction had locked its next job; workers check again at ' || v_lane.look_at
                || v_where,
            NULL;
        v_stops := true;
    END IF;

    -- The job may start in this lane. The job that the lane waits for goes next, or else the head.
    SELECT * INTO v_first FROM jobs WHERE id = coalesce(v_lane.job_id, first_in_lane(p_lock));
    v_later := v_first.status = 'scheduled' AND v_first.scheduled_at > clock();
    IF v_first.id <> p_job.id THEN
        IF v_first.locks IS NOT NULL AND NOT v_later THEN
            v_other := coalesce(closed_lane(v_first.id, v_first.locks, v_first.shared), (
                SELECT head.lock FROM lane_heads(v_first.locks) AS head
                WHERE head.id <> v_first.id LIMIT 1));
        END IF;
        v_shared := v_lane.readers IS NOT NULL AND coalesce(p_lock <> ALL (v_first.shared), true)
            AND NOT v_later;
        v_paused := (SELECT p.reason FROM explain_pause(v_first.queue, v_first.task) AS p LIMIT 1);
        RETURN QUERY SELECT
            CASE WHEN v_lane.job_id IS NULL THEN 'lane head waits' ELSE 'lane retrying' END,
            'job ' || v_first.id || ' (' || v_first.task || ') goes first'
                || CASE WHEN v_later THEN ', at ' || v_first.scheduled_at
                        WHEN v_first.status = 'limited' THEN ' and waits for its limit'
                        WHEN v_other IS NOT NULL THEN ' and waits for lane ' || v_other
                        WHEN v_shared THEN ' and waits for the jobs that share the lane'
                        WHEN v_paused IS NOT NULL THEN ' and its ' || replace(v_paused, ' ', ' is ')
                        ELSE ' and waits for a worker of queue ' || v_first.queue END
                || v_where,
            CASE WHEN v_later
                 THEN once_known(v_first.queue, v_first.task,
                     'queue lanes retry-head ' || shell_argument(p_lock))
                 WHEN v_other IS NOT NULL OR v_shared
                 THEN 'queue jobs explain ' || v_first.id END;
        -- The caller reports the pauses of this job's own queue and task.
        RETURN QUERY SELECT * FROM explain_pause(v_first.queue, v_first.task)
            EXCEPT SELECT * FROM explain_pause(p_job.queue, p_job.task);
        v_stops := v_stops OR v_paused IS NOT NULL;
        IF v_first.limit_key IS NOT NULL THEN
            RETURN QUERY SELECT * FROM explain_limit(v_first);
            v_stops := v_stops OR FOUND;
        END IF;
        RETURN QUERY SELECT * FROM explain_busy(v_first.id);
        RETURN QUERY SELECT * FROM explain_workers(
            v_first.queue, v_first.task, v_stops OR v_later OR v_other IS NOT NULL OR v_shared)
        -- else the caller reports it
        WHERE (v_first.queue, v_first.task) <> (p_job.queue, p_job.task);
    END IF;
END $$;
