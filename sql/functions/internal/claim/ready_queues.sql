-- Returns the queues that have a job to start, for a worker that serves all queues. Takes a few
-- index probes per queue, however many jobs there are. Pass p_groups = false to skip jobs with a
-- group if you know that none waits.
CREATE OR REPLACE FUNCTION ready_queues(p_groups boolean DEFAULT true) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_result text[] := '{}';
    v_next   text := '';   -- before every name
BEGIN
    LOOP
        v_next := least(
            (SELECT queue FROM jobs
             WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL AND queue > v_next
             ORDER BY queue LIMIT 1),
            (SELECT queue FROM jobs
             WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL AND queue > v_next
             ORDER BY queue LIMIT 1),
            (SELECT queue FROM jobs
             WHERE p_groups AND status = 'todo' AND group_key IS NOT NULL AND queue > v_next
             ORDER BY queue LIMIT 1));
        EXIT WHEN v_next IS NULL;
        v_result := v_result || v_next;
    END LOOP;
    RETURN v_result;
END $$;
