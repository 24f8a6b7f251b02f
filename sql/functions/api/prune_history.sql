-- Drops the days of the history that are wholly older than p_keep and were counted (see roll_up). A
-- job that halts its lane is kept, in the default partition, because a person has to decide about
-- it. p_is_default means that the caller was given no value: the history is then kept as long as
-- any live worker was told to (see keep_for). Returns the number of days dropped, at most ten per
-- call. NULL means that the history was being read, or the cell is being moved, and nothing was
-- dropped.
--
-- A partition can only be detached while no statement uses the whole table, and every finish waits
-- behind the detaching call. It therefore waits only a moment for readers, and tries again later.
-- (DETACH … CONCURRENTLY needs no such moment, but PostgreSQL refuses it if there is a default
-- partition.)
CREATE OR REPLACE FUNCTION prune_history(p_keep interval, p_is_default boolean DEFAULT false)
    RETURNS integer
LANGUAGE plpgsql
SET timezone = 'UTC'
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_before date := clock() - keep_for(p_keep, p_is_default);
    v_day    text;
    v_gone   integer := 0;
BEGIN
    PERFORM check_age(p_keep);
    IF v_before IS NULL THEN
        RETURN 0;
    END IF;
    IF history_days(v_before) = '{}' THEN
        -- Rows outside the days. Name the whole table, not its default partition, so that locks are
        -- taken in the same order as everywhere.
        DELETE FROM finished_jobs AS old
        WHERE finished_at < v_before AND old.tableoid = 'finished_jobs_default'::regclass
          AND NOT EXISTS (SELECT FROM lanes WHERE failed_job_id = old.id);
        RETURN 0;
    END IF;

    LOCK TABLE finished_jobs IN ACCESS EXCLUSIVE MODE;
    IF is_moving() THEN
        RETURN NULL;
    END IF;
    FOREACH v_day IN ARRAY history_days(v_before) LOOP   -- again: another may be faster
        EXECUTE format('ALTER TABLE finished_jobs DETACH PARTITION %I', v_day);
        EXECUTE format(
            'INSERT INTO finished_jobs_default
             SELECT * FROM %I
             WHERE id IN (SELECT failed_job_id FROM lanes WHERE failed_job_id IS NOT NULL)', v_day);
        EXECUTE format('DROP TABLE %I', v_day);
        v_gone := v_gone + 1;
    END LOOP;
    RETURN v_gone;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;
