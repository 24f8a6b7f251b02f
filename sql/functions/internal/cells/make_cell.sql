-- Makes this schema a cell, or does nothing if it is that cell already. From now on, `id % 1024` of
-- jobs and batches is the number of their cell.
CREATE OR REPLACE FUNCTION make_cell(p_number integer, p_of integer, p_map uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_table text;
BEGIN
    LOCK TABLE cell IN EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM cell WHERE (number, of, map) = (p_number, p_of, p_map)) THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM cell) THEN
        RAISE EXCEPTION 'the schema % is another cell', current_schema();
    END IF;
    LOCK TABLE jobs, batches IN EXCLUSIVE MODE;  -- no id is drawn until we commit
    IF EXISTS (SELECT FROM jobs) OR EXISTS (SELECT FROM finished_jobs)
        OR EXISTS (SELECT FROM batches) THEN
        RAISE EXCEPTION 'the schema % has jobs, whose ids name no cell. Use a new schema, and let '
            'the workers of this one finish its jobs', current_schema();
    END IF;
    INSERT INTO cell (number, of, map, home) VALUES (p_number, p_of, p_map, cell_home());
    FOREACH v_table IN ARRAY '{jobs, batches}'::text[] LOOP
        EXECUTE format('ALTER SEQUENCE %I INCREMENT 1024 RESTART %s',
            v_table || '_id_seq', CASE p_number WHEN 0 THEN 1024 ELSE p_number END);
    END LOOP;
    RETURN true;
END $$;
