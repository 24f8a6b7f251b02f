-- A worker says which schedules it knows. A new one begins now: nothing is caught up from before anybody knew it. So does
-- one whose expression or zone has changed; what was deferred last stays, so that no instant comes twice. The rows of the others are
-- not locked: somebody else may have, and each worker that starts comes by here.
CREATE OR REPLACE FUNCTION register_schedules(p_tasks text[], p_periodic_ids text[], p_crons text[], p_zones text[]) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
SET lock_timeout = '100ms'
AS $$
    INSERT INTO schedules (task, periodic_id, cron, tz, since)
    SELECT told.*, clock() FROM unnest(p_tasks, p_periodic_ids, p_crons, p_zones) AS told(task, periodic_id, cron, tz)
    WHERE NOT EXISTS (
        SELECT FROM schedules AS known
        WHERE (known.task, known.periodic_id, known.cron, known.tz) = (told.task, told.periodic_id, told.cron, told.tz)
          AND known.since <= clock() + interval '1 day'
    )
    ORDER BY told.task, told.periodic_id   -- the same way for all, so that no two wait for each other
    ON CONFLICT (task, periodic_id) DO UPDATE SET cron = excluded.cron, tz = excluded.tz, since = excluded.since
    WHERE (schedules.cron, schedules.tz) <> (excluded.cron, excluded.tz)
       OR schedules.since > clock() + interval '1 day'   -- written by a clock that was wrong
$$;
