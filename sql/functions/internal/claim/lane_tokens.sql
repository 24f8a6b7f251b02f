-- Returns the lane tokens in front of these queues, at most p_windows in each, and the tokens
-- p_found, which the caller has found (see group_front and new_candidates). `open` tells whether
-- the lane can be acquired for this token: the lane is free, or it waits for the retry that we see.
-- Among several tokens of a lane, only the best can be open. Lanes in p_lost were just lost to
-- another claim, whose hold is invisible until it commits. The planner drops the part for p_found
-- if it is not given.
--
-- A token that has `several` lanes, or shares one, is open if none of its lanes is held against it.
-- Several such tokens of one lane may be open, since they may share it. If one of its lanes is in
-- p_lost, it counts as `touched`: an open transaction may have the lane locked, and many such
-- tokens may be in front. If it has a limit, it is `limited` (see pass_gates).
CREATE OR REPLACE FUNCTION lane_tokens(
    p_queues text[], p_windows integer[], p_lost text[], p_found bigint[] DEFAULT NULL
) RETURNS TABLE (
    id bigint, lock text, priority integer, open boolean, touched boolean, group_key text,
    several boolean, limited boolean
)
LANGUAGE sql STABLE AS $$
    SELECT t.id, t.lock, t.priority,
        CASE WHEN t.locks IS NOT NULL
        THEN NOT arrayoverlap(t.locks, p_lost)
            AND (SELECT true FROM lanes
                 WHERE lanes.lock = ANY (t.locks) AND NOT lets_start(lanes, t.id, t.shared)
                 LIMIT 1) IS NULL
        ELSE
        CASE WHEN lane.state IS NULL   -- no row, or a free one
            THEN row_number() OVER (PARTITION BY t.lock ORDER BY t.priority DESC, t.id) = 1
            ELSE coalesce(lane.job_id = t.id AND lane.stopped IS NULL, false) END
            AND t.lock NOT IN (SELECT unnest(p_lost))
        END
        -- A token locked by an open transaction must not take the place of another one.
        AND CASE WHEN is_touched(t.xmin, t.xmax) THEN try_lock_job(t.id) ELSE true END,
        is_touched(t.xmin, t.xmax) OR coalesce(arrayoverlap(t.locks, p_lost), false),
        coalesce(t.group_key, ''), t.locks IS NOT NULL,
        t.locks IS NOT NULL AND t.limit_key IS NOT NULL
    FROM (
        SELECT front.* FROM unnest(p_queues, p_windows) AS q(queue, size)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.lock::text AS lock, jobs.priority, jobs.xmin, jobs.xmax,
                jobs.group_key, jobs.locks, jobs.shared, jobs.limit_key
            FROM jobs
            WHERE has_status(jobs.status, 'todo') AND jobs.lock IS NOT NULL
              AND jobs.group_key IS NULL AND jobs.queue::text = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT q.size
        ) AS front
        UNION ALL
        SELECT jobs.id, jobs.lock::text AS lock, jobs.priority, jobs.xmin, jobs.xmax,
            jobs.group_key, jobs.locks, jobs.shared, jobs.limit_key
        FROM jobs WHERE jobs.id = ANY (p_found)
    ) AS t
    LEFT JOIN LATERAL (
        SELECT lanes.state, lanes.job_id, lanes.stopped FROM lanes WHERE lanes.lock = t.lock
        ORDER BY lanes.version DESC LIMIT 1
    ) AS lane ON true
$$;
