-- Returns the jobs that may start in the slots that ended jobs give back: of each gate the first
-- ones that wait there, one for each mention. It locks their rows, and leaves out a job that:
-- * An open transaction has locked.
-- * Has lanes, because only a claim tries to win them.
-- * Has a group, because claims give the groups their turns.
-- * Has expired, or its task is paused (p_paused).
--
-- A gate whose limit has a rate needs a token for each start, and one whose limit has been lowered
-- has fewer slots to give. A count that is too low is left to open_gates. The caller has locked the
-- gates, in an earlier statement.
CREATE OR REPLACE FUNCTION slot_heads(p_gates text[], p_paused text[])
    RETURNS TABLE (gate text, id bigint, queue text, priority integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH room AS MATERIALIZED (
        SELECT gates.key, least(freed.slots, rule.slots - gates.used + freed.slots) AS free
        FROM (SELECT key, count(*) AS slots FROM unnest(p_gates) AS key GROUP BY key) AS freed
        CROSS JOIN LATERAL (
            SELECT gates.key, gates.used FROM gates WHERE gates.key = freed.key
            ORDER BY gates.version DESC LIMIT 1
        ) AS gates
        CROSS JOIN LATERAL gate_rule(gates.key) AS rule
        WHERE rule.rate IS NULL AND gates.used >= freed.slots
    )
    SELECT room.key, job.id, job.queue::text, job.priority
    FROM room
    CROSS JOIN LATERAL (
        SELECT waiting.id
        FROM gate_queues(room.key) AS q(queue)
        CROSS JOIN LATERAL (
            SELECT gated_jobs.id, gated_jobs.is_awaited, gated_jobs.priority FROM gated_jobs
            WHERE gated_jobs.gate = room.key AND gated_jobs.queue = q.queue
            ORDER BY gated_jobs.is_awaited DESC, gated_jobs.priority DESC, gated_jobs.id
            LIMIT greatest(room.free, 0)
        ) AS waiting
        ORDER BY waiting.is_awaited DESC, waiting.priority DESC, waiting.id
        LIMIT greatest(room.free, 0)
    ) AS first
    CROSS JOIN LATERAL (
        SELECT jobs.id, jobs.queue, jobs.priority FROM jobs
        WHERE jobs.id = ANY (ARRAY[first.id]) AND coalesce(jobs.status = 'limited', false)
            AND jobs.lock IS NULL AND jobs.group_key IS NULL
            AND jobs.task NOT IN (SELECT unnest(p_paused))
            AND (jobs.expires_at IS NULL OR jobs.was_attempted OR jobs.expires_at > clock())
        FOR UPDATE SKIP LOCKED
    ) AS job;
END $$;
