-- Creates the daily partitions of finished_jobs from today on, as many days ahead as asked. Rows that a day without a
-- partition left in the default one move to their place. Locks nothing that a finish needs for long.
CREATE OR REPLACE FUNCTION prepare_history(p_days integer) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET timezone = 'UTC'
AS $$
DECLARE
    v_day     date;
    v_name    text;
    v_created integer := 0;
BEGIN
    -- One at a time: two workers would both find the day missing.
    PERFORM pg_advisory_xact_lock(hashtextextended('inturn history ' || current_schema(), 0));
    FOR v_day IN SELECT clock()::date + n FROM generate_series(0, p_days) AS n LOOP
        v_name := 'finished_jobs_' || to_char(v_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(v_name) IS NOT NULL;
        LOCK TABLE finished_jobs_default IN ACCESS EXCLUSIVE MODE;
        -- Created apart and attached: PARTITION OF would lock the whole history against readers and writers.
        EXECUTE format('CREATE TABLE %I (LIKE finished_jobs)', v_name);
        EXECUTE format(
            'WITH moved AS (DELETE FROM finished_jobs_default WHERE finished_at >= %2$L AND finished_at < %3$L RETURNING *)
             INSERT INTO %1$I SELECT * FROM moved', v_name, v_day, v_day + 1);
        EXECUTE format('ALTER TABLE finished_jobs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', v_name, v_day, v_day + 1);
        v_created := v_created + 1;
    END LOOP;
    RETURN v_created;
END $$;
