-- Returns the queues that have a job to start, for a worker that serves all queues. Takes a few
-- index probes per queue, however many jobs there are. Pass p_groups = false to skip jobs with a
-- group if you know that none waits.
--
-- Each index is walked once, from queue to queue: what it answered last is kept until its turn.
CREATE OR REPLACE FUNCTION ready_queues(p_groups boolean DEFAULT true) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_result  text[] := '{}';
    v_last    text := '';   -- before every name
    v_free    text := '';   -- the next queue with a free job; NULL: there is no other
    v_lanes   text := '';   -- the same, with a lane's token
    v_grouped text := CASE WHEN p_groups THEN '' END;
BEGIN
    LOOP
        IF v_free = v_last THEN
            v_free := (
                SELECT queue FROM jobs
                WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
                    AND queue::text > v_last
                ORDER BY queue::text LIMIT 1);
        END IF;
        IF v_lanes = v_last THEN
            v_lanes := (
                SELECT queue FROM jobs
                WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
                    AND queue::text > v_last
                ORDER BY queue::text LIMIT 1);
        END IF;
        IF v_grouped = v_last THEN
            v_grouped := (
                SELECT queue FROM jobs
                WHERE status = 'todo' AND group_key IS NOT NULL AND queue::text > v_last
                ORDER BY queue::text LIMIT 1);
        END IF;
        v_last := least(v_free COLLATE "C", v_lanes, v_grouped);
        EXIT WHEN v_last IS NULL;
        v_result := array_append(v_result, v_last);
    END LOOP;
    RETURN v_result;
END $$;
