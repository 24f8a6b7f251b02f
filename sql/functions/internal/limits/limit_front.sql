-- Sets more free jobs `limited`, among those that far_front finds, whose keys have no slot or token
-- left or are locked (see take_slots), so that a few claims get past a burst of such jobs. Locks no
-- other jobs.
CREATE OR REPLACE FUNCTION limit_front(p_queues text[], p_keys text[], p_seen bigint[])
    RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[] := ARRAY(
        SELECT id FROM far_front(p_queues, p_seen)
        WHERE coalesce(limit_key IN (SELECT unnest(p_keys)), false));
BEGIN
    v_ids := ARRAY(
        SELECT id FROM jobs
        WHERE id = ANY (v_ids) AND status = 'todo' AND limit_key IN (SELECT unnest(p_keys))
        FOR UPDATE SKIP LOCKED);
    UPDATE jobs SET status = 'limited' WHERE jobs.id = ANY (v_ids);
END $$;
