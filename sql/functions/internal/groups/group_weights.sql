-- Returns how many jobs of each of these groups start in a turn: the weight of exactly this group
-- in `groups`, else that of the longest matching pattern, else 1. The jobs without a group ('') are
-- one group, whose weight is always 1.
CREATE OR REPLACE FUNCTION group_weights(p_groups text[]) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM groups) THEN
        RETURN array_fill(1, ARRAY[cardinality(p_groups)]);
    END IF;
    RETURN ARRAY(
        SELECT coalesce((
            SELECT weight FROM groups
            WHERE each.name <> '' AND (pattern = each.name
                OR (right(pattern, 1) = '*' AND starts_with(each.name, left(pattern, -1))))
            ORDER BY pattern = each.name DESC, length(pattern) DESC LIMIT 1), 1)
        FROM unnest(p_groups) WITH ORDINALITY AS each(name, place) ORDER BY each.place);
END $$;
