-- Returns whether this schema is a cell that is being moved (docs/decisions/cells.md). Then no row
-- may move between partitions: replication would send only one half of that.
CREATE OR REPLACE FUNCTION is_moving() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM pg_publication JOIN pg_publication_rel ON prpubid = pg_publication.oid
        WHERE prrelid = 'finished_jobs'::regclass AND starts_with(pubname, 'inturn_move_'))
$$;
