-- Returns why a job's limit does not let it start: all slots are taken, it has to wait for a token,
-- or an open transaction has the key locked. A job that was woken and finds a slot has no reason
-- here.
--
-- Bounded: it looks for the holders of the slots among 10,000 running jobs, and names three. Jobs
-- that were claimed ahead hold slots too, but are never the ones to abort.
CREATE OR REPLACE FUNCTION explain_limit(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'limited',
        CASE WHEN own.used >= rule.slots
             THEN own.used || CASE own.used WHEN 1 THEN ' job' ELSE ' jobs' END || ' of limit '
                 || p_job.limit_key || CASE own.used WHEN 1 THEN ' has' ELSE ' have' END
                 || ' started, ' || rule.slots || ' allowed; the next starts when one ends'
                 || coalesce(': ' || holders.names, '')
             WHEN room.free <= 0
             THEN 'limit ' || p_job.limit_key || ' lets ' || rule.rate || ' start in '
                 || rule.period || '; the next at ' || room.next_at
             ELSE 'limit ' || p_job.limit_key || ' lets it start at the next claim' END,
        coalesce(holders.ending, '') || 'if you can allow more: queue limits set --' || CASE
            WHEN own.used >= rule.slots THEN 'concurrency ' || rule.slots::bigint * 2
            WHEN room.free <= 0 THEN 'rate ' || rule.rate::bigint * 2 || '/' || CASE rule.period
                WHEN '1 second' THEN 's' WHEN '1 minute' THEN 'min' WHEN '1 hour' THEN 'h'
                WHEN '1 day' THEN 'day' END END || ' ' || shell_argument(rule.pattern)
    FROM (SELECT) AS once
    LEFT JOIN find_limit(p_job.limit_key) AS rule ON true
    LEFT JOIN gates AS own ON own.key = limit_gate(p_job.limit_key)
    LEFT JOIN LATERAL fold_key(own, rule) AS room ON true
    LEFT JOIN LATERAL (
        SELECT string_agg('job ' || id || ' (' || task || ') since ' || started_at, ', '
            ORDER BY id) || CASE WHEN own.used > 3 THEN ' …' ELSE '' END AS names,
            CASE own.used WHEN 1 THEN 'if it hangs' ELSE 'if they hang' END
                || ': queue jobs cancel --abort ' || string_agg(id::text, ' ' ORDER BY id)
                || '; ' AS ending
        FROM (
            SELECT id, task, claimed_at AS started_at FROM (
                SELECT id, task, claimed_at FROM claimed_jobs WHERE status = 'doing' LIMIT 10000
            ) AS running
            WHERE own.used >= rule.slots AND p_job.limit_key = (
                SELECT limit_key FROM jobs WHERE jobs.id = running.id LIMIT 1)
            ORDER BY claimed_at, id LIMIT 3
        ) AS holder
    ) AS holders ON true
    WHERE p_job.status = 'limited' OR room.free <= 0
    UNION ALL
    SELECT 'limited', locker.*
    FROM gates AS own
    CROSS JOIN LATERAL
        locking_processes('limit ' || p_job.limit_key, own.xmin, own.xmax, own.tableoid) AS locker
    WHERE own.key = limit_gate(p_job.limit_key)
$$;
