-- reconcile: the safety net of the lanes. Among the p_limit lanes after p_after, it finds those
-- that nobody would ever wake, and repairs them. Returns where to go on, or NULL after the last
-- lane. Each repair is recorded in lane_audit (`reconcile`). There should never be any: each one
-- is a bug, or a row that was changed by hand.
CREATE OR REPLACE FUNCTION reconcile(p_after text, p_limit integer) RETURNS text
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_locks text[];
    v_lock  text;
BEGIN
    WITH RECURSIVE waiting(lock, n) AS (
        (SELECT lock, 1 FROM jobs
         WHERE lock > p_after AND status IN ('todo', 'blocked') AND lock IS NOT NULL ORDER BY lock
         LIMIT 1)
        UNION ALL
        SELECT (SELECT jobs.lock FROM jobs
                WHERE jobs.lock > waiting.lock AND status IN ('todo', 'blocked')
                    AND jobs.lock IS NOT NULL
                ORDER BY jobs.lock LIMIT 1), n + 1
        FROM waiting WHERE waiting.lock IS NOT NULL AND n < p_limit
    ), seen AS (
        SELECT lock FROM waiting WHERE lock IS NOT NULL
        UNION
        (SELECT lock FROM lanes WHERE lock > p_after ORDER BY lock LIMIT p_limit)
    )
    SELECT array_agg(lock) INTO v_locks
    FROM (SELECT lock FROM seen ORDER BY lock LIMIT p_limit) AS next;

    FOREACH v_lock IN ARRAY coalesce(v_locks, '{}') LOOP
        IF lane_is_stranded(v_lock) THEN
            PERFORM repair_lane(v_lock);
        END IF;
    END LOOP;
    RETURN CASE WHEN cardinality(v_locks) = p_limit THEN v_locks[p_limit] END;
END $$;
