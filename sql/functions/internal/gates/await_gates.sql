-- Locks gates until commit, and returns those that stay locked by others for longer than a moment.
-- A gate without a row gets one.
--
-- It must not take the free gates first and then wait for the others: two callers could each hold
-- what the other one waits for.
CREATE OR REPLACE FUNCTION await_gates(p_gates text[]) RETURNS text[]
LANGUAGE plpgsql
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_gates text[] := ARRAY(SELECT DISTINCT unnest(p_gates) COLLATE "C" ORDER BY 1);
    v_held  integer;
BEGIN
    BEGIN
        PERFORM FROM unnest(v_gates) AS wanted(key)
        CROSS JOIN LATERAL (
            SELECT FROM gates WHERE gates.key = wanted.key
            ORDER BY gates.version DESC LIMIT 1 FOR UPDATE
        ) AS own;
        GET DIAGNOSTICS v_held = ROW_COUNT;
    EXCEPTION WHEN lock_not_available THEN
        v_held := 0;
    END;
    IF v_held = cardinality(v_gates) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT unnest(v_gates) EXCEPT SELECT unnest(try_lock_gates(v_gates)));
END $$;
