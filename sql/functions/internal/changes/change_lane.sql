-- Makes one change of a bulk of lanes, and returns its outcome (see change_lanes). The caller has
-- locked the lane and the other lanes of its next job.
CREATE OR REPLACE FUNCTION change_lane(
    p_action text, p_lock text, p_states text[], p_by text, p_reason text, p_until timestamptz,
    p_error text
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_lane lanes;
BEGIN
    SELECT * INTO v_lane FROM lanes WHERE lock = p_lock;
    IF coalesce(v_lane.state::text, 'idle') <> ALL (p_states)
        AND coalesce(v_lane.stopped::text <> ALL (p_states), true)
        OR p_error IS NOT NULL AND NOT lane_fails_with(p_lock, p_error) THEN
        RETURN 'changed';
    END IF;
    CASE p_action
    WHEN 'resume' THEN
        RETURN CASE WHEN resume_lane(p_lock, p_by) THEN 'done' ELSE 'nothing' END;
    WHEN 'pause' THEN
        RETURN CASE WHEN pause_lane(p_lock, p_reason, p_until, p_by) THEN 'done'
            ELSE 'halted' END;
    WHEN 'retry-head' THEN
        RETURN CASE WHEN retry_head(p_lock, p_by) IS NOT NULL THEN 'done' ELSE 'nothing' END;
    ELSE
        IF v_lane.worker_id IS NOT NULL THEN
            RETURN 'running';
        END IF;
        RETURN CASE WHEN skip_head(p_lock, p_by) IS NOT NULL THEN 'done' ELSE 'nothing' END;
    END CASE;
END $$;
