-- Creates the daily partitions of finished_jobs from today on, as many days ahead as asked, at most
-- 31. Rows of a day without a partition are in the default partition, and move to the new one.
-- Returns the number of partitions created, or NULL if none could be created because another
-- session is creating them or using the history, or the cell is being moved: try again in a minute.
--
-- Every finish waits while this call waits for its lock, so it waits only for a moment, or for less
-- if there is time left. A job that finishes on a day without a partition is not lost.
CREATE OR REPLACE FUNCTION prepare_history(p_days integer) RETURNS integer
LANGUAGE plpgsql
SET timezone = 'UTC'
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_day     date;
    v_name    text;
    v_created integer := 0;
BEGIN
    FOR v_day IN SELECT clock()::date + n FROM generate_series(0, least(p_days, 31)) AS n LOOP
        v_name := 'finished_jobs_' || to_char(v_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(v_name) IS NOT NULL;
        IF NOT pg_try_advisory_xact_lock(lock_key('history')) THEN
            RETURN NULL;
        END IF;
        IF v_day > clock()::date + 1 THEN
            PERFORM set_config('lock_timeout', '5ms', true);
        END IF;
        -- Lock the whole history for a moment, before any session looks up its partitions. A finish
        -- that has chosen the default partition and then waits for it would break its new
        -- constraint. A reader that knows only the default one would miss the rows that moved.
        LOCK TABLE finished_jobs IN ACCESS EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass(v_name) IS NOT NULL;   -- another session was faster
        IF is_moving() THEN
            RETURN NULL;
        END IF;
        EXECUTE format('CREATE TABLE %I (LIKE finished_jobs)', v_name);
        -- Without this, no row could leave the day while the table is in a publication.
        EXECUTE format('ALTER TABLE %I REPLICA IDENTITY FULL', v_name);
        EXECUTE format(
            'WITH moved AS (
                 DELETE FROM finished_jobs_default
                 WHERE finished_at >= %2$L AND finished_at < %3$L RETURNING *)
             INSERT INTO %1$I SELECT * FROM moved', v_name, v_day, v_day + 1);
        EXECUTE format('ALTER TABLE finished_jobs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            v_name, v_day, v_day + 1);
        v_created := v_created + 1;
    END LOOP;
    RETURN v_created;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;
