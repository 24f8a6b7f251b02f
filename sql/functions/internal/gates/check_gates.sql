-- Opens gates at which jobs may pass now: those for which a token has come or jobs still wait, and
-- those for which leave_looks or end_pauses has left a row. Bounded: p_limit of each kind, tasks
-- before limits, of which there may be many. Never waits. A locked gate is skipped and does not
-- hold up those behind it.
CREATE OR REPLACE FUNCTION check_gates(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gate  text;
    v_left  integer := p_limit;
    v_gates text[] := ARRAY(
        SELECT key FROM gates WHERE look_at <= clock() ORDER BY look_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED);
BEGIN
    DELETE FROM gate_looks WHERE key = ANY (v_gates);
    FOR v_gate IN
        WITH RECURSIVE asked(key) AS (
            (SELECT key FROM gate_looks ORDER BY key DESC LIMIT 1)
            UNION ALL
            SELECT (SELECT looks.key FROM gate_looks AS looks WHERE looks.key < asked.key
                    ORDER BY looks.key DESC LIMIT 1)
            FROM asked WHERE asked.key IS NOT NULL
        )
        SELECT key FROM asked WHERE key IS NOT NULL LIMIT 1000
    LOOP
        IF try_lock_gates(ARRAY[v_gate]) <> '{}' THEN
            -- These rows were committed before, so later statements see what they announce.
            DELETE FROM gate_looks WHERE key = v_gate;
            IF FOUND THEN
                v_gates := v_gates || v_gate;
            END IF;
            v_left := v_left - 1;
            EXIT WHEN v_left = 0;
        END IF;
    END LOOP;
    IF v_gates <> '{}' THEN
        PERFORM notify_workers(open_gates(v_gates));
    END IF;
END $$;
