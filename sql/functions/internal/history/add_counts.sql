-- Adds two histograms, bin by bin.
CREATE OR REPLACE FUNCTION add_counts(p_one integer[], p_other integer[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(coalesce(one, 0) + coalesce(other, 0) ORDER BY bin), '{}')
    FROM unnest(p_one, p_other) WITH ORDINALITY AS bins(one, other, bin)
$$;
