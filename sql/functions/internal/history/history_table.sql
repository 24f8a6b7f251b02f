-- Returns the name of the history partition for a day, whether it exists or not.
CREATE OR REPLACE FUNCTION history_table(p_day date) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT 'finished_jobs_' || to_char(p_day, 'YYYYMMDD')
$$;
