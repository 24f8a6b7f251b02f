-- Returns how long a worker that found nothing may sleep if nothing wakes it.
--   delay     the time until the next scheduled job, the next job that expires, the end of a
--             pause, or the next look at a lane, a limit, a batch, or children whose rows were
--             locked.
--             Zero if a ready job was just skipped because its lane was locked, or if the
--             children of an ended job need handling.
--             NULL if there is nothing to wait for.
--   notified  true if every producer now sees that the worker sleeps. False if a transaction is
--             still open that began before the worker recorded it: it may commit a job without a
--             notification, so look again soon.
--   horizon   marks the transactions to wait for: pass it to the next call, until the worker has
--             been awake again
--   newest    the highest id that was drawn for a job, even if it is not committed
CREATE OR REPLACE FUNCTION next_wake(
    p_queues text[], p_horizon xid8 DEFAULT NULL, OUT delay interval, OUT notified boolean,
    OUT horizon xid8, OUT newest bigint
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT CASE WHEN EXISTS (
        SELECT FROM unnest(leave_out_paused(coalesce(p_queues, ready_queues()))) AS q(queue)
        WHERE (SELECT true FROM jobs WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
               AND jobs.queue = q.queue LIMIT 1)
           OR (SELECT true FROM jobs WHERE status = 'todo' AND lock IS NOT NULL
               AND group_key IS NULL AND jobs.queue = q.queue LIMIT 1)
           OR (SELECT true FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
               AND jobs.queue = q.queue LIMIT 1)
    ) OR (SELECT true FROM gate_looks LIMIT 1) THEN interval '0'
    ELSE (
        SELECT greatest(min(due.at), clock()) - clock() FROM (
            (SELECT scheduled_at FROM jobs WHERE status = 'scheduled' ORDER BY scheduled_at LIMIT 1)
            UNION ALL
            (SELECT expires_at FROM jobs
             WHERE expires_at IS NOT NULL AND status <> 'doing' AND NOT was_attempted
             ORDER BY expires_at LIMIT 1)
            UNION ALL
            (SELECT coalesce(look_at, stopped_until) FROM lanes
             WHERE coalesce(look_at, stopped_until) IS NOT NULL
             ORDER BY coalesce(look_at, stopped_until) LIMIT 1)
            UNION ALL
            -- One that is over should be gone: an open transaction has its row locked.
            SELECT CASE WHEN until > clock() THEN until ELSE clock() + interval '1 s' END
            FROM pauses WHERE until IS NOT NULL
            UNION ALL
            (SELECT look_at FROM ends ORDER BY look_at LIMIT 1)
            UNION ALL
            (SELECT look_at FROM gates WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 1)
            UNION ALL
            (SELECT greatest(due_at, timestamptz 'epoch') FROM batch_events
             ORDER BY due_at LIMIT 1)
        ) AS due(at) HAVING count(*) > 0
    ) END,
    -- One snapshot for everything: the look above has seen what ended transactions have left.
    pg_snapshot_xmin(pg_current_snapshot()) >= began.horizon,
    began.horizon,
    (SELECT last_value FROM jobs_id_seq)
    INTO delay, notified, horizon, newest
    -- A new transaction id, not the snapshot's end: other transactions may have begun since the
    -- last id that is over. A horizon beyond the end was given by another server.
    FROM (SELECT CASE WHEN p_horizon < pg_snapshot_xmax(pg_current_snapshot()) THEN p_horizon
        ELSE pg_current_xact_id() END) AS began(horizon);
END $$;
