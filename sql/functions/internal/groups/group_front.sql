-- Returns the first p_limit jobs with a group in the order of turns, and perhaps some more: free
-- jobs, whose rows it locks without waiting, or lane tokens, without locks. p_turns tells where
-- each priority continues (see fair_candidates).
--
-- It visits one group after another, and comes round again if there are few, so it reads about
-- p_limit jobs, however many wait or are locked by other sessions.
CREATE OR REPLACE FUNCTION group_front(
    p_queues text[], p_free boolean, p_limit integer, p_turns jsonb
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result   bigint[] := '{}';
    v_left     integer := p_limit;   -- how many are still to be found
    v_priority bigint := 2147483648; -- above any priority
BEGIN
    WHILE v_left > 0 LOOP
        v_priority := (
            SELECT max(best.priority)
            FROM unnest(p_queues) AS q(queue)
            CROSS JOIN LATERAL (
                SELECT jobs.priority FROM jobs
                WHERE jobs.status = 'todo' AND jobs.group_key IS NOT NULL
                  AND jobs.queue = q.queue AND (jobs.lock IS NULL)::integer = p_free::integer
                  AND jobs.priority < v_priority
                ORDER BY jobs.priority DESC LIMIT 1
            ) AS best);
        EXIT WHEN v_priority IS NULL;
        v_result := v_result || turns_of_priority(
            p_queues, p_free, v_priority::integer, v_left, p_turns -> v_priority::text);
        v_left := p_limit - cardinality(v_result);
    END LOOP;
    RETURN v_result;
END $$;
