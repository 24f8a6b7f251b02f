-- Wakes workers that may be asleep: those of the named queues ({}: nobody), or all (NULL). At most one notification a call, sent at
-- commit. It carries no data but queue names; nothing depends on its arrival, workers also poll.
--
-- Nothing is sent while every worker that could hear it is awake: a notification takes a lock that is one for the whole server, around
-- the commit, and would make those who defer wait for each other. A worker that lies down meanwhile looks again until all
-- that began before are over (see next_wake). A transaction that may read an old row of it notifies in any case.
--
-- PREPARE TRANSACTION refuses a transaction that has notified: one that is to be prepared says SET LOCAL inturn.quiet = on, and leaves
-- its jobs to the workers' poll.
CREATE OR REPLACE FUNCTION notify_workers(p_queues text[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF p_queues = '{}' OR current_setting('inturn.quiet', true) = 'on' OR current_setting('transaction_isolation') = 'read committed' AND NOT EXISTS (
        SELECT FROM workers WHERE NOT awake AND (queues IS NULL OR p_queues IS NULL OR queues && p_queues)
    ) THEN
        RETURN;
    END IF;
    PERFORM pg_notify(current_schema(), CASE WHEN length(names) < 7000 THEN names ELSE '' END)
    FROM (SELECT coalesce(string_agg(DISTINCT queue, ','), '') AS names FROM unnest(p_queues) AS queue) AS list;
END $$;
