-- set_group: sets how many jobs of a group start in each of its turns, 1 to 1,000. A pattern that
-- ends with `*` applies to every group with this prefix, each by itself. It replaces an earlier
-- weight of the same pattern. Claims that begin after the commit use it, and waiting jobs are not
-- touched.
CREATE OR REPLACE FUNCTION set_group(
    p_pattern text,
    p_weight  integer,
    p_by      text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_problem text := CASE
        WHEN (octet_length(p_pattern) BETWEEN 1 AND 1024
            AND strpos(p_pattern, '*') IN (0, length(p_pattern))) IS NOT TRUE
            THEN 'pattern: give a group, or the beginning of groups with a * at its end'
        WHEN (p_weight BETWEEN 1 AND 1000) IS NOT TRUE
            THEN 'weight: give a whole number from 1 to 1,000'
        END;
BEGIN
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION '%', v_problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO groups (pattern, weight) VALUES (p_pattern, p_weight)
    ON CONFLICT (pattern) DO UPDATE SET weight = excluded.weight;
    PERFORM audit('set-group', p_pattern, 0, p_by, 'weight ' || p_weight);
END $$;
