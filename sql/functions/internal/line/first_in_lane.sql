-- Returns the job that a claim would find first in the line of a lane. Unlike lane_heads, it
-- includes due jobs that are not promoted yet, and skips expired ones: a claim promotes the former
-- and cancels the latter. Only the 10,000 jobs that have been due for longest are read.
CREATE OR REPLACE FUNCTION first_in_lane(p_lock text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT id FROM (
        (SELECT head.priority, head.id FROM jobs AS head
         WHERE head.lock = p_lock AND head.status IN ('todo', 'blocked', 'limited', 'paused')
            AND head.lock IS NOT NULL AND head.keeps_lanes IS NULL
            AND (head.expires_at IS NULL OR head.was_attempted OR head.expires_at > clock())
         ORDER BY head.priority DESC, head.id LIMIT 1)
        UNION ALL
        (SELECT waits.priority, waits.id FROM waits JOIN jobs AS head ON head.id = waits.id
         WHERE waits.lock = p_lock
            AND (head.expires_at IS NULL OR head.was_attempted OR head.expires_at > clock())
         ORDER BY waits.priority DESC, waits.id LIMIT 1)
        UNION ALL
        SELECT due.priority, due.id FROM (
            SELECT * FROM jobs WHERE status = 'scheduled' AND scheduled_at <= clock()
            ORDER BY scheduled_at LIMIT 10000) AS due
        WHERE (due.lock = p_lock OR p_lock = ANY (due.locks)) AND due.keeps_lanes IS NULL
            AND (due.expires_at IS NULL OR due.was_attempted OR due.expires_at > clock())
    ) AS startable ORDER BY priority DESC, id LIMIT 1
$$;
