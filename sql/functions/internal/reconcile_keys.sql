-- Looks after the keys of limits: a count that does not fit the jobs that run, and jobs that wait
-- though they could start, are repaired and recorded. Rows that nothing needs are deleted. It waits
-- for nobody. Bounded.
CREATE OR REPLACE FUNCTION reconcile_keys(p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_key  text;
    v_used bigint;
BEGIN
    FOR v_key IN
        SELECT k.key FROM limit_keys AS k
        LEFT JOIN (
            SELECT limit_key::text AS key, count(*) FROM jobs
            WHERE status = 'doing' AND limit_key IS NOT NULL GROUP BY limit_key
        ) AS running ON running.key = k.key
        WHERE k.used <> coalesce(running.count, 0)
        ORDER BY k.key LIMIT p_limit
    LOOP
        IF try_lock_keys(ARRAY[v_key]) <> '{}' THEN
            v_used := (SELECT count(*) FROM jobs WHERE status = 'doing' AND limit_key = v_key);
            UPDATE limit_keys SET used = v_used WHERE key = v_key AND used <> v_used;
            IF FOUND THEN
                PERFORM audit('reconcile', v_key, 1, 'inturn', 'the limit''s count of jobs');
                PERFORM notify_workers(wake_limited(ARRAY[v_key]));
            END IF;
        END IF;
    END LOOP;
    FOR v_key IN
        SELECT key FROM limit_keys
        WHERE coalesce(look_at <= clock() - interval '1 minute', true) AND (used = 0 OR (
            SELECT true FROM jobs WHERE status = 'limited' AND limit_key = key LIMIT 1))
        ORDER BY key LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM notify_workers(wake_limited(ARRAY[v_key]));
        DELETE FROM limit_keys
        WHERE key = v_key AND used = 0 AND look_at IS NULL
            AND coalesce(tokens >= (find_limit(v_key)).burst, true)
            AND NOT EXISTS (SELECT FROM jobs WHERE status = 'limited' AND limit_key = v_key);
    END LOOP;
END $$;
