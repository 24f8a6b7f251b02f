-- Checks keys of limits again: those for which a token has come or jobs still wait, and those for
-- which leave_looks has left a row. Bounded: p_limit of each kind. Never waits. A locked key is
-- skipped and does not hold up those behind it.
CREATE OR REPLACE FUNCTION resume_keys(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_key  text;
    v_left integer := p_limit;
BEGIN
    FOR v_key IN
        SELECT key FROM limit_keys WHERE look_at <= clock() ORDER BY look_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM notify_workers(wake_limited(ARRAY[v_key]));
    END LOOP;
    FOR v_key IN
        WITH RECURSIVE asked(key) AS (
            (SELECT key FROM limit_looks ORDER BY key LIMIT 1)
            UNION ALL
            SELECT (SELECT looks.key FROM limit_looks AS looks WHERE looks.key > asked.key
                    ORDER BY looks.key LIMIT 1)
            FROM asked WHERE asked.key IS NOT NULL
        )
        SELECT key FROM asked WHERE key IS NOT NULL LIMIT 1000
    LOOP
        IF try_lock_keys(ARRAY[v_key]) <> '{}' THEN
            -- These rows were committed before, so later statements see what they announce.
            DELETE FROM limit_looks WHERE key = v_key;
            PERFORM notify_workers(wake_limited(ARRAY[v_key])) WHERE FOUND;
            v_left := v_left - 1;
            EXIT WHEN v_left = 0;
        END IF;
    END LOOP;
END $$;
