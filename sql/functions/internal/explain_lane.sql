-- Returns the reasons in its lane that keep a job from running.
CREATE OR REPLACE FUNCTION explain_lane(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane  lanes;
    v_first jobs;
    v_later boolean;            -- that job is not due yet (a due one stays scheduled until a claim)
    v_stops boolean := false;   -- it would start no job even if a worker had a free slot
BEGIN
    SELECT * INTO v_lane FROM lanes WHERE lock = p_job.lock;
    IF v_lane.stopped IS NOT NULL
        AND (v_lane.stopped_until IS NULL OR v_lane.stopped_until > clock()) THEN
        RETURN QUERY SELECT
            'lane ' || v_lane.stopped,
            'since ' || v_lane.stopped_at || ' by ' || v_lane.stopped_by
                || coalesce(' until ' || v_lane.stopped_until, '')
                || coalesce(': ' || v_lane.stop_reason, ''),
            CASE WHEN v_lane.stopped = 'halted'
                      AND EXISTS (SELECT FROM finished_jobs WHERE id = v_lane.failed_job_id)
                 THEN 'queue lanes retry-head ' ELSE 'queue lanes resume ' END
                || shell_argument(p_job.lock);
        v_stops := true;
    END IF;
    IF v_lane.worker_id IS NOT NULL THEN
        RETURN QUERY SELECT 'lane held',
            'by job ' || id || ' (' || task || ')' || CASE job.status
                WHEN 'claimed' THEN ', claimed by worker ' || worker || ' at ' || claimed_at
                ELSE ' since ' || claimed_at END,
            NULL
        FROM claimed_jobs AS job WHERE worker_id = v_lane.worker_id AND lock = v_lane.lock;
        RETURN QUERY SELECT * FROM explain_holder(v_lane.worker_id);
        RETURN;
    END IF;

    IF v_lane.look_at > clock() THEN
        RETURN QUERY SELECT 'lane delayed',
            'an open transaction had its next job locked; workers look again at ' || v_lane.look_at,
            NULL;
        v_stops := true;
    END IF;

    -- Nobody holds the lane. Next goes the job that it waits for, or the head as a claim sees it.
    SELECT * INTO v_first FROM jobs WHERE id = coalesce(v_lane.job_id, (
        SELECT id FROM (
            -- Not lane_heads: the head may have expired. Then a claim cancels it and goes on.
            (SELECT head.priority, head.id FROM jobs AS head
             WHERE head.lock = p_job.lock AND head.status IN ('todo', 'blocked', 'limited')
                AND head.lock IS NOT NULL AND head.keeps_lanes IS NULL
                AND (head.expires_at IS NULL OR head.was_attempted OR head.expires_at > clock())
             ORDER BY head.priority DESC, head.id LIMIT 1)
            UNION ALL
            SELECT due.priority, due.id FROM jobs AS due
            WHERE due.status = 'scheduled' AND due.scheduled_at <= clock() AND due.lock = p_job.lock
                AND (due.expires_at IS NULL OR due.was_attempted OR due.expires_at > clock())
        ) AS startable ORDER BY priority DESC, id LIMIT 1
    ));
    v_later := v_first.status = 'scheduled' AND v_first.scheduled_at > clock();
    IF v_first.id <> p_job.id THEN
        RETURN QUERY SELECT
            CASE WHEN v_lane.job_id IS NULL THEN 'lane head waits' ELSE 'lane retrying' END,
            'job ' || v_first.id || ' (' || v_first.task || ') goes first'
                || CASE WHEN v_later THEN ', at ' || v_first.scheduled_at
                        WHEN v_first.status = 'limited' THEN ' and waits for its limit'
                        ELSE ' and waits for a worker of queue ' || v_first.queue END,
            CASE WHEN v_later THEN 'queue lanes retry-head ' || shell_argument(p_job.lock) END;
        IF v_first.limit_key IS NOT NULL THEN
            RETURN QUERY SELECT * FROM explain_limit(v_first);
            v_stops := v_stops OR FOUND;
        END IF;
        RETURN QUERY SELECT * FROM explain_busy(v_first.id);
        RETURN QUERY SELECT * FROM explain_workers(
            v_first.queue, v_first.task, v_stops OR v_later)
        -- else the caller reports it
        WHERE (v_first.queue, v_first.task) <> (p_job.queue, p_job.task);
    END IF;
END $$;
