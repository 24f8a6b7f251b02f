-- Records which schedules a worker knows. A new schedule begins now: earlier instants are not
-- caught up. So does a schedule whose expression or time zone has changed; it keeps its last
-- instant, so no instant fires twice. Rows that do not change are not locked, because another
-- session may have locked them, and every worker calls this when it starts.
CREATE OR REPLACE FUNCTION register_schedules(p_tasks text[], p_periodic_ids text[], p_crons text[],
    p_zones text[]) RETURNS void
LANGUAGE sql
SET lock_timeout = '100ms'
AS $$
    INSERT INTO schedules (task, periodic_id, cron, tz, since)
    SELECT given.*, clock()
    FROM unnest(p_tasks, p_periodic_ids, p_crons, p_zones) AS given(task, periodic_id, cron, tz)
    WHERE NOT EXISTS (
        SELECT FROM schedules AS known
        WHERE (known.task, known.periodic_id, known.cron, known.tz)
            = (given.task, given.periodic_id, given.cron, given.tz)
          AND known.since <= clock() + interval '1 day'
    )
    ORDER BY given.task, given.periodic_id   -- one order for all callers prevents deadlocks
    ON CONFLICT (task, periodic_id) DO UPDATE
    SET cron = excluded.cron, tz = excluded.tz, since = excluded.since
    WHERE (schedules.cron, schedules.tz) <> (excluded.cron, excluded.tz)
       OR schedules.since > clock() + interval '1 day'   -- written by a wrong clock
$$;
