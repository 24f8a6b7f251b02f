-- Does the work of group_front for one priority. p_turn is the last group, and how many of its jobs
-- may still start before those of the next group.
CREATE OR REPLACE FUNCTION turns_of_priority(
    p_queues text[], p_free boolean, p_priority integer, p_limit integer, p_turn jsonb
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    -- No name sorts between a name and the same name with this character appended.
    v_first   text := coalesce(p_turn ->> 0, '')
        || CASE WHEN (p_turn ->> 1)::integer > 0 THEN '' ELSE chr(1) END;
    v_from    text := v_first;
    v_before  text;            -- where the round ends, after wrapping to the first name
    v_new     text[];
    v_groups  text[] := '{}';
    v_weights integer[];
    v_share   bigint;          -- how many jobs start in one turn of all groups that may have more
    v_times   integer := 1;
    v_result  bigint[] := '{}';
BEGIN
    -- Take no more groups than we need: other claims want the jobs that we lock.
    LOOP
        v_new := next_groups(
            p_queues, p_free, p_priority, v_from, v_before, p_limit - cardinality(v_result));
        IF v_new <> '{}' THEN
            v_from := v_new[cardinality(v_new)] || chr(1);
            v_groups := v_groups || v_new;
            v_result := v_result || ARRAY(SELECT id FROM jobs_of_groups(
                p_queues, p_free, p_priority, v_new, group_weights(v_new), 1));
            EXIT WHEN cardinality(v_result) >= p_limit;
        ELSE
            EXIT WHEN v_before IS NOT NULL;
            v_from := '';
            v_before := v_first;
        END IF;
    END LOOP;

    v_weights := group_weights(v_groups);
    v_share := (SELECT sum(weight) FROM unnest(v_weights) AS weight);
    WHILE cardinality(v_result) < p_limit AND v_share > 0 LOOP
        v_times := v_times + greatest(1, (p_limit - cardinality(v_result)) / v_share);
        WITH found AS MATERIALIZED (
            SELECT * FROM jobs_of_groups(
                p_queues, p_free, p_priority, v_groups, v_weights, v_times)
        ), more AS (
            SELECT v_weights[place] AS weight FROM found GROUP BY place
            HAVING count(*) >= v_times * v_weights[place]
        )
        SELECT coalesce(array_agg(id), '{}'), (SELECT sum(weight) FROM more)
        INTO v_result, v_share FROM found;
    END LOOP;
    RETURN v_result;
END $$;
