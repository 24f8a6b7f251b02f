-- reconcile: the safety net of the lanes. Among the p_limit lanes after p_after, finds those that
-- nothing would ever wake, and repairs them. Returns where to continue, or NULL after the last
-- lane. Each repair is recorded in lane_audit (`reconcile`). There should never be any: each one is
-- a bug, or a row that was changed by hand. Deletes free rows, of lanes that need none, after a
-- while.
CREATE OR REPLACE FUNCTION reconcile(p_after text, p_limit integer) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_locks text[];
    v_lock  text;
BEGIN
    PERFORM recall_looks();
    IF p_after = '' THEN
        PERFORM reconcile_gates(1000);
    END IF;
    WITH RECURSIVE waiting(lock, n) AS (
        SELECT p_after COLLATE "C", 0
        UNION ALL
        SELECT (SELECT jobs.lock::text FROM jobs
                WHERE jobs.lock > waiting.lock
                    AND status IN ('todo', 'blocked', 'limited', 'paused')
                    AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
                ORDER BY jobs.lock LIMIT 1), n + 1
        FROM waiting WHERE waiting.lock IS NOT NULL AND n < p_limit
    ), beside(lock, n) AS (
        SELECT p_after COLLATE "C", 0
        UNION ALL
        SELECT (SELECT waits.lock::text FROM waits WHERE waits.lock > beside.lock
                ORDER BY waits.lock LIMIT 1), n + 1
        FROM beside WHERE beside.lock IS NOT NULL AND n < p_limit
    ), seen AS (
        SELECT lock FROM waiting WHERE n > 0 AND lock IS NOT NULL
        UNION
        (SELECT lock FROM lanes WHERE lock > p_after ORDER BY lock LIMIT p_limit)
        UNION
        SELECT lock FROM beside WHERE n > 0 AND lock IS NOT NULL
    )
    SELECT array_agg(lock) INTO v_locks
    FROM (SELECT lock FROM seen ORDER BY lock LIMIT p_limit) AS next;

    DELETE FROM lanes WHERE lock = ANY (ARRAY(
        SELECT lock FROM lanes
        WHERE lock = ANY (v_locks) AND state IS NULL AND since < clock() - interval '1 min'
        FOR UPDATE SKIP LOCKED));

    -- A lane is well if its worker runs a job of it. One scan of the running jobs answers this for
    -- all lanes.
    FOR v_lock IN
        SELECT next.lock
        FROM unnest(v_locks) AS next(lock)
        LEFT JOIN LATERAL (
            SELECT lanes.worker_id FROM lanes WHERE lanes.lock = next.lock LIMIT 1
        ) AS lane ON true
        WHERE lane.worker_id IS NULL OR (next.lock, lane.worker_id) NOT IN (
            SELECT jobs.lock, jobs.worker_id FROM jobs
            WHERE jobs.status = 'doing' AND jobs.lock IS NOT NULL AND jobs.worker_id = ANY (ARRAY(
                SELECT lanes.worker_id FROM lanes
                WHERE lanes.lock = ANY (v_locks) AND lanes.worker_id IS NOT NULL)))
    LOOP
        IF lane_is_stranded(v_lock) THEN
            PERFORM repair_lane(v_lock);
        END IF;
    END LOOP;
    RETURN CASE WHEN cardinality(v_locks) = p_limit THEN v_locks[p_limit] END;
END $$;
