-- What block_behind does with jobs that have a limit. Such a job may have been woken for a slot,
-- and others of its key sleep. If it is blocked now, the slot must go to the next one. So the call
-- passes over jobs whose key somebody has locked. A key without a row has nobody who waits for it.
CREATE OR REPLACE FUNCTION block_limited(p_ids bigint[], p_lanes text[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_all    text[];
    v_keys   text[];
    v_result bigint;
BEGIN
    v_all := ARRAY(
        SELECT key FROM limit_keys
        WHERE key = ANY (ARRAY(SELECT DISTINCT limit_key::text FROM jobs
            WHERE id = ANY (p_ids) AND status = 'todo' AND limit_key IS NOT NULL)));
    v_keys := ARRAY(SELECT key FROM limit_keys WHERE key = ANY (v_all) ORDER BY key
        FOR UPDATE SKIP LOCKED);
    WITH behind AS MATERIALIZED (
        SELECT id FROM jobs
        WHERE id = ANY (p_ids) AND status = 'todo'
            AND coalesce(lock IN (SELECT unnest(p_lanes)), false)
            AND (limit_key IN (SELECT unnest(v_keys)) OR limit_key NOT IN (SELECT unnest(v_all)))
        FOR UPDATE SKIP LOCKED
    )
    UPDATE jobs SET status = 'blocked' WHERE id = ANY (ARRAY(SELECT behind.id FROM behind));
    GET DIAGNOSTICS v_result = ROW_COUNT;
    PERFORM notify_workers(wake_limited(v_keys)) WHERE v_result > 0;
    RETURN v_result;
END $$;
