-- Returns the locks of a job's lanes, sorted, or NULL if it has none.
CREATE OR REPLACE FUNCTION lanes_of(p_lock text, p_locks text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(p_locks, CASE WHEN p_lock IS NOT NULL THEN ARRAY[p_lock] END)
$$;
