-- Makes tokens of the best jobs that wait for these keys: in each queue as many as could start,
-- since another queue may have no worker. Jobs that lanes wait for go first. With p_frees, a slot
-- goes back first for each time that a key is named; tokens of a rate do not come back. Returns the
-- queues whose workers must be woken. The caller has locked the keys, in an earlier statement.
--
-- No slot is kept for these jobs. One of them may wait for a lane whose job waits for the slot, or
-- an open transaction may have it or its lane locked. So while jobs wait though they could start,
-- claims look again and again.
CREATE OR REPLACE FUNCTION wake_limited(p_keys text[], p_frees boolean DEFAULT false)
    RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[] := '{}';
    v_named  record;
    v_key    limit_keys;
    v_room   record;
    v_free   integer;
    v_woken  integer;
    v_queues text[];
    v_look   timestamptz;
BEGIN
    FOR v_named IN SELECT key, count(*) FROM unnest(p_keys) AS key GROUP BY key ORDER BY key LOOP
        SELECT * INTO v_key FROM limit_keys WHERE key = v_named.key;
        IF p_frees THEN
            v_key.used := greatest(v_key.used - v_named.count, 0);
        END IF;
        v_room := fold_key(v_key);
        v_free := least(coalesce(v_room.free, 1000), 1000);
        v_queues := ARRAY(SELECT limited_queues(v_key.key));
        v_look := CASE WHEN v_queues <> '{}' THEN v_room.next_at END;
        IF v_free > 0 AND v_queues <> '{}' THEN
            WITH best AS MATERIALIZED (
                SELECT job.id FROM unnest(v_queues) AS q(queue)
                CROSS JOIN LATERAL (
                    SELECT jobs.id FROM jobs
                    WHERE jobs.status = 'limited' AND jobs.limit_key = v_key.key
                        AND jobs.queue = q.queue
                    ORDER BY
                        (was_attempted AND on_retry = 'hold' AND lock IS NOT NULL) DESC,
                        priority DESC, id
                    LIMIT v_free
                    FOR UPDATE SKIP LOCKED
                ) AS job
            )
            UPDATE jobs SET status = 'todo' WHERE jobs.id = ANY (ARRAY(SELECT best.id FROM best));
            GET DIAGNOSTICS v_woken = ROW_COUNT;
            v_look := CASE WHEN (SELECT true FROM jobs
                    WHERE status = 'limited' AND limit_key = v_key.key LIMIT 1)
                THEN least(v_look, clock() + CASE WHEN v_woken >= 1000 THEN interval '0.1 s'
                    WHEN v_woken = 0 THEN interval '1 s' ELSE interval '5 s' END) END;
        END IF;
        IF v_free > 0 OR v_look < coalesce(v_key.look_at, 'infinity') THEN
            v_result := v_result || v_queues;
        END IF;
        -- A look that is planned already is kept, so that the row's index entry stays. One that is
        -- due now is not: in a test, the clock may stand still.
        UPDATE limit_keys
        SET used = v_key.used, tokens = v_room.tokens, refilled_at = v_room.refilled_at,
            look_at = CASE WHEN v_key.look_at > clock() AND v_key.look_at <= v_look
                           THEN v_key.look_at ELSE v_look END
        WHERE key = v_key.key;
    END LOOP;
    RETURN v_result;
END $$;
