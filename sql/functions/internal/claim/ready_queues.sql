-- Returns the queues that have a job to start, for a worker that serves all queues. Takes a few
-- index probes per queue, however many jobs there are. Pass p_groups = false to skip jobs with a
-- group if you know that none waits, and p_tokens = false if no lane has a token.
--
-- Each index is walked once, from queue to queue: what it answered last is kept until its turn.
CREATE OR REPLACE FUNCTION ready_queues(
    p_groups boolean DEFAULT true, p_tokens boolean DEFAULT true
) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_result  text[] := '{}';
    v_last    text := '';   -- before every name
    v_free    text := '';   -- the next queue with a free job; NULL: there is no other
    v_lanes   text := CASE WHEN p_tokens THEN '' END;   -- the same, with a lane's token
    v_grouped text := CASE WHEN p_groups THEN '' END;
BEGIN
    LOOP
        IF v_free = v_last THEN
            v_free := (
                SELECT queue FROM jobs
                WHERE has_status(status, 'todo') AND lock IS NULL AND group_key IS NULL
                    AND queue::text > v_last
                ORDER BY queue::text USING < LIMIT 1);
        END IF;
        IF num_nonnulls(v_lanes, v_grouped) = 0 THEN
            v_last := v_free;
        ELSE
            IF v_lanes = v_last THEN
                v_lanes := (
                    SELECT queue FROM jobs
                    WHERE has_status(status, 'todo') AND lock IS NOT NULL AND group_key IS NULL
                        AND queue::text > v_last
                    ORDER BY queue::text USING < LIMIT 1);
            END IF;
            IF v_grouped = v_last THEN
                v_grouped := (
                    SELECT queue FROM jobs
                    WHERE has_status(status, 'todo') AND group_key IS NOT NULL
                        AND queue::text > v_last
                    ORDER BY queue::text USING < LIMIT 1);
            END IF;
            v_last := least(v_free COLLATE "C", v_lanes, v_grouped);
        END IF;
        EXIT WHEN v_last IS NULL;
        v_result := array_append(v_result, v_last);
    END LOOP;
    RETURN v_result;
END $$;
