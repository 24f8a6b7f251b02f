-- Returns which jobs are handed over to the worker that has just finished a job: the heads of the
-- lanes that it ran in, and what waits for the slots that it gives back (slot_heads).
--
-- With p_floors, the search for the head of a lane begins there, if it has one, and nothing gives
-- way to other ready jobs: the look at those would walk over what lies at their front.
--
-- For both, the worker must be registered, serve the queue and want no more than p_want jobs. One
-- that was declared dead, and does not know it yet, would start a job that a rescuer takes back
-- before the reply arrives.
--
-- A job that waits for a slot is handed over unless another ready job is better: has a higher
-- priority, is older, or has a group and the same priority.
--
-- For the head of a lane, all of these must hold:
-- * The lane's row names the worker. This excludes stopped lanes, and lanes that the worker held
--   under another id before it was declared dead.
-- * No other ready job should get the slot first. A job of higher priority always should. An older
--   job of the same priority should once the lane has been held for its slice: otherwise a worker
--   would stay in one deep lane and starve the rest. Without the slice, it would give up each lane
--   after every job. At most a quarter of the lanes give way in one call, those held longest: a
--   worker with many lanes in hand cannot visit them all within a slice, and claiming a lane anew
--   costs more than handing it over. A job with a group always goes first, even if it may turn out
--   to be locked or in a held lane, because claims give the groups their turns. If the head itself
--   has a group, so does any job of the same priority.
-- * The head has one lane and does not share it: only a claim tries to win several.
-- * It has not expired, and has no limit. A free slot goes to the best job that waits for it.
-- * Its task is not paused (p_paused), and it does not wait at a gate.
-- * No open transaction has it locked. A locked job is neither handed over nor given way to.
CREATE OR REPLACE FUNCTION handover_candidates(
    p_worker uuid, p_locks text[], p_gates text[], p_queues text[], p_want integer, p_paused text[],
    p_floors jsonb
)
RETURNS TABLE (lock text, gate text, id bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH grouped AS MATERIALIZED (
        SELECT true AS waits FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
        ORDER BY jobs.queue LIMIT 1
    ), first AS (
        SELECT ready.priority, ready.id
        FROM unnest(CASE WHEN p_floors IS NULL THEN
            coalesce(p_queues, ready_queues(EXISTS (TABLE grouped))) END) AS q(queue)
        CROSS JOIN LATERAL (
            (SELECT NULL AS lock, jobs.priority, jobs.id FROM jobs
             WHERE jobs.status = 'todo' AND jobs.lock IS NULL
               AND jobs.group_key IS NULL AND jobs.queue = q.queue
               AND (NOT is_touched(jobs.xmin, jobs.xmax) OR try_lock_job(jobs.id))
             ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
            UNION ALL
            (SELECT jobs.lock, jobs.priority, jobs.id FROM jobs
             WHERE jobs.status = 'todo' AND jobs.lock IS NOT NULL
               AND jobs.group_key IS NULL AND jobs.queue = q.queue
               AND (NOT is_touched(jobs.xmin, jobs.xmax) OR try_lock_job(jobs.id))
             ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
            UNION ALL
            (SELECT NULL, jobs.priority, 0 FROM grouped, jobs
             WHERE jobs.status = 'todo' AND (jobs.lock IS NULL)::integer = 1
               AND jobs.group_key IS NOT NULL AND jobs.queue = q.queue
             ORDER BY jobs.priority DESC LIMIT 1)
            UNION ALL
            (SELECT NULL, jobs.priority, 0 FROM grouped, jobs
             WHERE jobs.status = 'todo' AND (jobs.lock IS NULL)::integer = 0
               AND jobs.group_key IS NOT NULL AND jobs.queue = q.queue
             ORDER BY jobs.priority DESC LIMIT 1)
        ) AS ready
        WHERE ready.lock IS NULL OR ready.lock NOT IN (SELECT unnest(p_locks))
        ORDER BY ready.priority DESC, ready.id
        LIMIT 1
    )
    SELECT next.lock, next.gate, next.id
    FROM (
        SELECT head.lock, NULL AS gate, head.id, head.queue, head.priority
        FROM (
            SELECT held.since, held.place, best.*
            FROM (
                SELECT lane.lock, own.since, row_number() OVER (ORDER BY own.since) AS place
                FROM unnest(p_locks) AS lane(lock)
                CROSS JOIN LATERAL (
                    SELECT lanes.since, lanes.worker_id FROM lanes WHERE lanes.lock = lane.lock
                    ORDER BY lanes.version DESC LIMIT 1
                ) AS own
                WHERE own.worker_id = p_worker
            ) AS held
            CROSS JOIN LATERAL lane_heads(ARRAY[held.lock], p_floors) AS best
        ) AS head
        LEFT JOIN first ON true
        WHERE (head.start_before IS NULL OR head.start_before > clock())
          AND NOT head.limited AND NOT head.several
          AND NOT head.aside AND head.task NOT IN (SELECT unnest(p_paused))
          AND (NOT head.touched OR try_lock_job(head.id))
          AND (first.id IS NULL OR head.priority > first.priority
               OR NOT head.grouped AND (head.priority, first.id) > (first.priority, head.id)
               OR (head.priority = first.priority AND first.id > 0 AND NOT head.grouped
                   AND (clock() BETWEEN head.since AND head.since + interval '0.1 s'
                        OR head.place > (cardinality(p_locks) + 3) / 4)))
        UNION ALL
        SELECT NULL, slot.gate, slot.id, slot.queue, slot.priority
        FROM slot_heads(p_gates, p_paused) AS slot LEFT JOIN first ON true
        WHERE p_gates IS NOT NULL
          AND coalesce((slot.priority, first.id) > (first.priority, slot.id), true)
    ) AS next
    WHERE EXISTS (SELECT FROM workers WHERE workers.id = p_worker)
      AND (p_queues IS NULL OR next.queue = ANY (p_queues))
    ORDER BY next.priority DESC, next.id
    LIMIT p_want;
END $$;
