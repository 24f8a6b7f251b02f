-- Repairs gates. A count that does not fit the running jobs is corrected and recorded. Jobs that
-- could pass but would never be looked at are woken, for example if their gate has no row, or if
-- the pause of their task was deleted by hand. Rows that nothing needs are deleted. Locks no gate
-- that is in order, and never waits.
--
-- It reads all gates and the running jobs, and checks 10,000 gates at which jobs wait, tasks before
-- limits. It changes at most p_limit gates of each kind.
CREATE OR REPLACE FUNCTION reconcile_gates(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_key  text;
    v_used bigint;
    v_idle text[];
BEGIN
    PERFORM end_pauses();   -- no claim may have come since a pause was over
    FOR v_key IN
        SELECT coalesce(known.key, running.key) FROM gates AS known
        FULL JOIN (
            SELECT limit_gate(limit_key) AS key, count(*) FROM jobs
            WHERE status = 'doing' AND limit_key IS NOT NULL GROUP BY limit_key
        ) AS running ON running.key = known.key
        WHERE coalesce(known.used, 0) <> coalesce(running.count, 0)
        ORDER BY 1 LIMIT p_limit
    LOOP
        IF try_lock_gates(ARRAY[v_key]) <> '{}' THEN
            v_used := (SELECT count(*) FROM jobs
                       WHERE status = 'doing' AND limit_gate(limit_key) = v_key);
            UPDATE gates SET used = v_used WHERE key = v_key AND used <> v_used;
            IF FOUND THEN
                PERFORM audit(
                    'reconcile-limit', gate_name(v_key), 1, 'inturn', 'the count of its jobs');
                PERFORM notify_workers(open_gates(ARRAY[v_key]));
            END IF;
        END IF;
    END LOOP;

    FOR v_key IN
        WITH RECURSIVE waiting(key) AS (
            (SELECT gate FROM gated_jobs ORDER BY gate DESC LIMIT 1)
            UNION ALL
            SELECT (SELECT next.gate FROM gated_jobs AS next WHERE next.gate < waiting.key
                    ORDER BY next.gate DESC LIMIT 1)
            FROM waiting WHERE waiting.key IS NOT NULL
        )
        SELECT first.key
        FROM (SELECT key FROM waiting WHERE key IS NOT NULL LIMIT 10000) AS first
        LEFT JOIN LATERAL (
            SELECT k.look_at, fold_key(k, rule) AS room
            FROM gates AS k LEFT JOIN LATERAL gate_rule(k.key) AS rule ON true
            WHERE k.key = first.key
        ) AS known ON true
        -- If only the end of a job helps the others, that end wakes them.
        WHERE (coalesce((known.room).free, 1) > 0 OR (known.room).next_at IS NOT NULL)
            AND known.look_at IS NULL
            AND (SELECT true FROM gate_looks AS asked WHERE asked.key = first.key LIMIT 1) IS NULL
        LIMIT p_limit
    LOOP
        PERFORM notify_workers(open_gates(try_lock_gates(ARRAY[v_key])));
        IF v_key >= 'task:' THEN
            PERFORM audit(
                'reconcile-task', gate_name(v_key), 1, 'inturn', 'jobs waited for no pause');
        END IF;
    END LOOP;

    v_idle := ARRAY(
        SELECT key FROM gates
        WHERE used = 0 AND look_at IS NULL
            AND (SELECT true FROM gated_jobs WHERE gate = key LIMIT 1) IS NULL
            AND coalesce(tokens IS NULL OR (
                -- A claim that began before its tokens were back may still be running.
                SELECT (fold_key(gates, rule)).tokens >= rule.burst
                    AND refilled_at < clock() - interval '1 min'
                FROM gate_rule(key) AS rule), true)
        LIMIT p_limit FOR UPDATE SKIP LOCKED);
    -- A new statement: from here on, no claim makes a job wait at these gates.
    DELETE FROM gates
    WHERE key = ANY (v_idle)
        AND (SELECT true FROM gated_jobs WHERE gate = key LIMIT 1) IS NULL;
END $$;
