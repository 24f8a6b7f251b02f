-- Returns for how long to keep the history, or NULL for ever. With p_is_default, nobody told the
-- caller how long: then a live worker that was told a longer time goes before it.
CREATE OR REPLACE FUNCTION keep_for(p_keep interval, p_is_default boolean) RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN told.longest = 'infinity' THEN NULL
        ELSE greatest(p_keep, make_interval(secs => told.longest * 86400)) END
    FROM (
        SELECT max(keep_history) AS longest FROM workers WHERE p_is_default AND is_live(workers)
    ) AS told
$$;
