-- A worker ends: what it was still doing goes back to the head of its lane at once. Returns how many jobs that were.
CREATE OR REPLACE FUNCTION leave(p_worker uuid) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM workers WHERE id = p_worker;
    RETURN (SELECT count(*) FROM rescue(NULL) WHERE worker_id = p_worker);
END $$;
