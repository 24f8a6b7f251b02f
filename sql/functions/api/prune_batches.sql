-- Deletes batches that ended longer ago than p_keep, at most p_limit, unless their callback has yet
-- to end. Returns how many. It waits for nobody.
CREATE OR REPLACE FUNCTION prune_batches(p_keep interval, p_limit integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM batches WHERE id = ANY (ARRAY(
        SELECT id FROM batches
        WHERE ended_at < clock() - p_keep AND ended_at IS NOT NULL
            AND (SELECT true FROM jobs WHERE jobs.id = callback_id LIMIT 1) IS NULL
        ORDER BY ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
