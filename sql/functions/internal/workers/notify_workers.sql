-- Wakes workers that may be asleep: those of the given queues ({}: none), or all (NULL). Sends at
-- most one notification per call, at commit. The payload is only queue names. Nothing depends on
-- its arrival, because workers also poll.
--
-- Nothing is sent while every worker that could hear it is awake: around the commit, a notification
-- takes a lock that is global to the server and would make producers wait for each other. A worker
-- that goes to sleep in between keeps looking until all transactions that began before are over
-- (see next_wake). A transaction that may read an old row of the worker always notifies.
--
-- PREPARE TRANSACTION refuses a transaction that has sent a notification. Such a transaction runs
-- SET LOCAL inturn.quiet = on before it defers, and leaves its jobs to the workers' poll.
CREATE OR REPLACE FUNCTION notify_workers(p_queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_queues = '{}' OR current_setting('inturn.quiet', true) = 'on'
        OR current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (
        SELECT FROM workers
            WHERE NOT awake AND (queues IS NULL OR p_queues IS NULL OR queues && p_queues)
    ) THEN
        RETURN;
    END IF;
    PERFORM pg_notify(current_schema(), CASE WHEN length(names) < 7000 THEN names ELSE '' END)
    FROM (SELECT coalesce(string_agg(DISTINCT queue, ','), '') AS names
        FROM unnest(p_queues) AS queue) AS list;
END $$;
