-- Returns the ids in their places, with NULL for those that are busy.
CREATE OR REPLACE FUNCTION mask_ids(p_ids bigint[], p_busy bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(CASE WHEN id NOT IN (SELECT unnest(p_busy)) THEN id END ORDER BY place)
    FROM unnest(p_ids) WITH ORDINALITY AS given(id, place)
$$;
