-- Returns the live jobs to look at for a list or a count. Those with one of these statuses are
-- among them. NULL in a filter means any.
-- * doing, claimed: the newest p_looked, or p_in_hand. What the workers have in hand is read once,
--   and not once for each job.
-- * todo, and none that waits for something: at most p_looked jobs without a lock, the newest, and
--   what could start in the first p_looked lanes, whatever their queues and tasks. In deep lanes
--   the newest jobs are all blocked.
-- * Otherwise the newest p_looked that may have such a status. If you ask for a lock, and only for
--   jobs that wait in its lane, they are found by its line, unless that is longer.
-- * Of a batch: the newest p_looked.
--
-- Fewer than p_looked candidates are all there are. The caller still has to filter them.
--
-- The ids are chosen before live_jobs is read. Otherwise a plan from wrong statistics may work out
-- the statuses of all live jobs.
CREATE OR REPLACE FUNCTION candidates(
    p_looked        integer,
    p_statuses      job_status[],
    p_queue         text,
    p_task          text,
    p_lock          text,
    p_in_lanes      boolean DEFAULT false,  -- leave out jobs without a lock
    p_queueing_lock text    DEFAULT NULL,
    p_worker        uuid    DEFAULT NULL,
    p_in_hand       integer DEFAULT NULL,   -- how many in hand are enough: all of them match
    p_group         text    DEFAULT NULL,
    p_batch         bigint  DEFAULT NULL,
    p_before_id     bigint  DEFAULT NULL    -- only jobs with smaller ids
) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_result  bigint[] := '{}';
    v_waiting job_status[] := ARRAY(
        SELECT status FROM unnest(p_statuses) AS status
        WHERE status IN ('todo', 'blocked', 'limited', 'scheduled', 'pending'));
    v_stored  job_status[] := v_waiting
        || CASE WHEN 'blocked' = ANY (v_waiting) THEN '{todo,paused}' ELSE '{}' END::job_status[];
    v_line    bigint[];
BEGIN
    IF p_batch IS NOT NULL THEN
        RETURN ARRAY(
            SELECT id FROM jobs
            WHERE batch_id = p_batch AND batch_id IS NOT NULL
              AND (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
              AND (p_queueing_lock IS NULL OR queueing_lock = p_queueing_lock)
              AND (p_worker IS NULL OR worker_id = p_worker)
              AND (p_group IS NULL OR group_key = p_group)
              AND (p_before_id IS NULL OR id < p_before_id)
            ORDER BY id DESC LIMIT p_looked
        );
    END IF;
    IF p_statuses && '{claimed,doing}' THEN
        v_result := ARRAY(
            SELECT id FROM claimed_jobs
            WHERE status = ANY (p_statuses)
              AND (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
              AND (NOT p_in_lanes OR lock IS NOT NULL)
              AND (p_queueing_lock IS NULL AND p_group IS NULL OR EXISTS (
                  SELECT FROM jobs
                  WHERE jobs.id = claimed_jobs.id
                    AND (p_queueing_lock IS NULL OR queueing_lock = p_queueing_lock)
                    AND (p_group IS NULL OR group_key = p_group)))
              AND (p_worker IS NULL OR worker_id = p_worker)
              AND (p_before_id IS NULL OR id < p_before_id)
            ORDER BY id DESC LIMIT coalesce(p_in_hand, p_looked)
        );
    END IF;
    IF v_waiting <@ '{todo}' AND v_waiting <> '{}' THEN
        v_result := v_result || ARRAY(
            (SELECT id FROM jobs
             WHERE status = 'todo' AND lock IS NULL AND p_lock IS NULL AND NOT p_in_lanes
               AND (p_queue IS NULL OR queue = p_queue) AND (p_task IS NULL OR task = p_task)
               AND (p_queueing_lock IS NULL OR queueing_lock = p_queueing_lock)
               AND (p_group IS NULL OR group_key = p_group)
               AND (p_before_id IS NULL OR id < p_before_id)
             ORDER BY id DESC LIMIT p_looked)
            UNION ALL
            SELECT * FROM lane_starters(p_looked, p_lock)
        );
    ELSIF p_statuses IS NULL OR v_waiting <> '{}' THEN
        IF v_stored <@ '{todo,blocked,limited,paused}' AND p_statuses IS NOT NULL THEN
            v_line := CASE WHEN p_lock IS NOT NULL THEN lane_line(p_lock, p_looked) END;
        END IF;
        v_result := v_result || ARRAY(
            SELECT id FROM jobs
            WHERE (p_statuses IS NULL OR status = ANY (v_stored))
              AND (p_queue IS NULL OR queue = p_queue)
              AND (p_task IS NULL OR task = p_task)
              AND (p_lock IS NULL OR lock = p_lock OR p_lock = ANY (locks))
              AND (NOT p_in_lanes OR lock IS NOT NULL)
              AND (p_queueing_lock IS NULL OR queueing_lock = p_queueing_lock)
              AND (p_worker IS NULL OR worker_id = p_worker)
              AND (p_group IS NULL OR group_key = p_group)
              AND (v_line IS NULL OR id = ANY (v_line))
              AND (p_before_id IS NULL OR id < p_before_id)
            ORDER BY id DESC LIMIT p_looked
        );
    END IF;
    RETURN v_result;
END $$;
