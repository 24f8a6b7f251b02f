-- Returns, for each given schedule and in the given order, the engine's time and the instant after
-- which jobs are to be deferred. NULL means that the schedule must be registered.
--
-- If another worker has registered it with another expression, `since` does not apply to ours.
-- Times more than a day ahead were written by a wrong clock and are ignored (see defer_periodic).
CREATE OR REPLACE FUNCTION schedule_progress(
    p_tasks text[], p_periodic_ids text[], p_crons text[], p_zones text[]
) RETURNS TABLE (now timestamptz, after timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT clock(), coalesce(
        greatest(
            CASE WHEN last_instant <= clock() + interval '1 day' THEN last_instant END,
            CASE WHEN since <= clock() + interval '1 day'
                  AND known.cron = given.cron AND known.tz = given.tz THEN since END),
        CASE WHEN since <= clock() + interval '1 day' THEN since END)
    FROM unnest(p_tasks, p_periodic_ids, p_crons, p_zones)
        WITH ORDINALITY AS given(task, periodic_id, cron, tz, position)
    LEFT JOIN schedules AS known USING (task, periodic_id)
    ORDER BY given.position
$$;
