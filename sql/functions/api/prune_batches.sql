-- Deletes batches that ended longer ago than p_keep, at most p_limit, unless their callback has yet
-- to end. With p_is_default, keeps them as long as any live worker was told to (see keep_for).
-- Returns how many. Never waits.
CREATE OR REPLACE FUNCTION prune_batches(
    p_keep interval, p_limit integer, p_is_default boolean DEFAULT false
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
    v_keep  interval := keep_for(p_keep, p_is_default);
BEGIN
    PERFORM check_age(p_keep);
    DELETE FROM batches WHERE id = ANY (ARRAY(
        SELECT id FROM batches
        WHERE ended_at < clock() - v_keep AND ended_at IS NOT NULL
            AND (SELECT true FROM jobs WHERE jobs.id = callback_id LIMIT 1) IS NULL
        ORDER BY ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
