-- Gives slots back, one for each time that a key is named, and wakes jobs that wait for them.
-- Returns their queues. The caller has locked the keys. It calls this for jobs that it has moved
-- out of `doing` itself, so a slot goes back exactly once. Tokens do not come back.
CREATE OR REPLACE FUNCTION free_slots(p_keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE limit_keys SET used = used - freed.count
    FROM (SELECT key, count(*) FROM unnest(p_keys) AS key GROUP BY key) AS freed
    WHERE limit_keys.key = ANY (ARRAY[freed.key]);
    RETURN wake_limited(ARRAY(SELECT DISTINCT key FROM unnest(p_keys) AS key ORDER BY key));
END $$;
