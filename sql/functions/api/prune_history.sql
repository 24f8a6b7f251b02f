-- Drops the days of the history that are wholly older than that. A job that halts its lane is kept, in the default partition: people
-- are to decide about it. Returns how many days went, at most ten a call; NULL: somebody is reading the history, nothing went.
--
-- A partition can only be detached while nobody uses the whole, and whoever finishes jobs waits behind us: so we wait for readers
-- for a moment only, and come back later. (DETACH … CONCURRENTLY needs no such moment, but refuses where there is a default.)
CREATE OR REPLACE FUNCTION prune_history(p_keep interval) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET timezone = 'UTC'
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_before date := clock() - p_keep;
    v_day    text;
    v_gone   integer := 0;
BEGIN
    IF history_days(v_before) = '{}' THEN
        -- What lies beside the days. Not by the name of the default partition: the whole is locked first, as by everybody.
        DELETE FROM finished_jobs AS old
        WHERE finished_at < v_before AND NOT EXISTS (SELECT FROM lanes WHERE failed_job_id = old.id);
        RETURN 0;
    END IF;

    LOCK TABLE finished_jobs IN ACCESS EXCLUSIVE MODE;
    FOREACH v_day IN ARRAY history_days(v_before) LOOP   -- asked again: somebody may have been faster
        EXECUTE format('ALTER TABLE finished_jobs DETACH PARTITION %I', v_day);
        EXECUTE format(
            'INSERT INTO finished_jobs_default
             SELECT * FROM %I WHERE id IN (SELECT failed_job_id FROM lanes WHERE failed_job_id IS NOT NULL)', v_day);
        EXECUTE format('DROP TABLE %I', v_day);
        v_gone := v_gone + 1;
    END LOOP;
    RETURN v_gone;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;
