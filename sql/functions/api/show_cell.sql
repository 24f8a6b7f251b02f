-- Returns the row of `cell`, and whether this database is the cell's home. No row: the schema is
-- not a cell.
CREATE OR REPLACE FUNCTION show_cell()
    RETURNS TABLE (number integer, of integer, map uuid, is_home boolean)
LANGUAGE sql STABLE AS $$
    SELECT number, of, map, home = cell_home() FROM cell
$$;
