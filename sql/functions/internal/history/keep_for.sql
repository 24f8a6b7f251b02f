-- Returns how long to keep the history, or NULL for ever. p_is_default means that the caller was
-- given no value; then a longer one that a live worker was given wins.
CREATE OR REPLACE FUNCTION keep_for(p_keep interval, p_is_default boolean) RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN told.longest = 'infinity' THEN NULL
        ELSE greatest(p_keep, make_interval(secs => told.longest * 86400)) END
    FROM (
        SELECT max(keep_history) AS longest FROM workers WHERE p_is_default AND is_live(workers)
    ) AS told
$$;
