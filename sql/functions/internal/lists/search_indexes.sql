-- Returns live jobs that may match a filter, from each index that fits it: at most p_search + 1
-- from each, in its order. If there are no more than p_search, these are all. The caller still has
-- to filter them.
--
-- This finds a rare status, a lane or a prefix of locks, however many other jobs there are. No
-- index has a lane's running or not yet due jobs, so all jobs of that status are read.
CREATE OR REPLACE FUNCTION search_indexes(
    p_filter job_filter,
    p_stored job_status[],   -- the statuses as stored in the table
    p_search integer,
    p_free   boolean,        -- with free jobs that may start
    p_lanes  boolean         -- with jobs in lanes
) RETURNS TABLE (ids bigint[])
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(
        SELECT id FROM jobs
        WHERE status = 'doing' AND 'doing' = ANY (p_stored)
            AND ((p_filter).worker_id IS NULL OR worker_id = (p_filter).worker_id)
        ORDER BY worker_id LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(
        SELECT id FROM jobs
        WHERE status = 'scheduled' AND 'scheduled' = ANY (p_stored)
            -- If only pending ones are asked for, they are due (see is_pending).
            AND (coalesce('scheduled' = ANY ((p_filter).statuses), true)
                OR scheduled_at <= clock() + interval '2 s')
        ORDER BY scheduled_at LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(
        SELECT id FROM jobs WHERE status = 'pending' AND 'pending' = ANY (p_stored)
        ORDER BY scheduled_at LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(
        SELECT id FROM gated_jobs
        WHERE 'limited' = ANY (p_stored) AND (p_filter).lock IS NULL
            AND gate < 'task:'
        ORDER BY gate LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(
        SELECT id FROM gated_jobs
        WHERE 'paused' = ANY (p_stored) AND (p_filter).lock IS NULL
            AND gate >= 'task:'
            AND ((p_filter).task IS NULL OR gate = task_gate((p_filter).task))
        ORDER BY gate LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(   -- free jobs
        SELECT id FROM jobs
        WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL AND p_free
            AND num_nulls((p_filter).lock, (p_filter).lock_prefix, (p_filter).group_key) = 3
            AND ((p_filter).queue IS NULL OR queue = (p_filter).queue)
        ORDER BY queue, priority DESC, id LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(   -- free jobs of groups
        SELECT id FROM jobs
        WHERE status = 'todo' AND group_key IS NOT NULL AND (lock IS NULL)::integer = 1
            AND p_free AND num_nulls((p_filter).lock, (p_filter).lock_prefix) = 2
            AND ((p_filter).queue IS NULL OR queue = (p_filter).queue)
        ORDER BY queue, priority DESC, group_key, id LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(   -- the lines of lanes
        SELECT id FROM (
            SELECT id, lock FROM jobs
            WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND lock IS NOT NULL
                AND keeps_lanes IS NULL AND p_lanes AND (p_stored && '{todo,blocked}'
                    OR (p_filter).lock IS NOT NULL AND p_stored && '{limited,paused}')
                AND ((p_filter).lock IS NULL OR lock = (p_filter).lock)
                AND ((p_filter).lock_prefix IS NULL OR lock >= (p_filter).lock_prefix)
            ORDER BY lock, priority DESC, id LIMIT p_search + 1) AS line
        WHERE (p_filter).lock_prefix IS NULL OR starts_with(lock, (p_filter).lock_prefix))
    UNION ALL SELECT ARRAY(
        SELECT id FROM (
            SELECT id, lock FROM waits
            WHERE p_lanes AND p_stored && '{todo,blocked,limited,paused}'
                AND num_nulls((p_filter).lock, (p_filter).lock_prefix) < 2
                AND ((p_filter).lock IS NULL OR lock = (p_filter).lock)
                AND ((p_filter).lock_prefix IS NULL OR lock >= (p_filter).lock_prefix)
            ORDER BY lock, priority DESC, id LIMIT p_search + 1) AS line
        WHERE (p_filter).lock_prefix IS NULL OR starts_with(lock, (p_filter).lock_prefix))
    UNION ALL SELECT ARRAY(   -- jobs that go before the line
        SELECT id FROM jobs
        WHERE keeps_lanes AND p_lanes AND p_stored && '{todo,blocked,limited,paused}'
        ORDER BY id LIMIT p_search + 1)
    UNION ALL SELECT ARRAY(
        SELECT job_id FROM lanes WHERE lock = (p_filter).lock AND job_id IS NOT NULL)
    UNION ALL SELECT ARRAY(
        SELECT id FROM jobs
        WHERE queueing_lock = (p_filter).queueing_lock AND queueing_lock IS NOT NULL
            AND status <> 'doing' AND NOT lost_queueing_lock)
$$;
