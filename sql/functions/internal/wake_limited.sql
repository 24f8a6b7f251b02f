-- Makes tokens of the best jobs that wait for these keys: in each queue as many as could start,
-- since another queue may have no worker. Jobs that lanes wait for go first. Returns the queues of
-- the tokens, whose workers must be woken. The caller has locked the keys, in an earlier statement.
--
-- No slot is kept for these jobs. One of them may wait for a lane whose job waits for the slot.
-- If an open transaction has such a job locked, or if there are very many, claims look again.
CREATE OR REPLACE FUNCTION wake_limited(p_keys text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[] := '{}';
    v_key    text;
    v_free   integer;
    v_woken  text[];
    v_left   text[];
BEGIN
    FOREACH v_key IN ARRAY p_keys LOOP
        v_left := '{}';
        v_free := least(coalesce(fold_key(v_key), 1000), 1000);
        UPDATE limit_keys SET look_at = NULL WHERE key = v_key AND look_at IS NOT NULL;
        IF v_free > 0 THEN
            WITH best AS MATERIALIZED (
                SELECT job.id FROM limited_queues(v_key) AS q(queue)
                CROSS JOIN LATERAL (
                    SELECT jobs.id FROM jobs
                    WHERE jobs.status = 'limited' AND jobs.limit_key = v_key
                        AND jobs.queue = q.queue
                    ORDER BY
                        (was_attempted AND on_retry = 'hold' AND lock IS NOT NULL) DESC,
                        priority DESC, id
                    LIMIT v_free
                    FOR UPDATE SKIP LOCKED
                ) AS job
            ), woken AS (
                UPDATE jobs SET status = 'todo'
                WHERE jobs.id = ANY (ARRAY(SELECT best.id FROM best))
                RETURNING jobs.queue::text
            )
            SELECT array_agg(queue) INTO v_woken FROM woken;
            v_left := ARRAY(
                SELECT queue FROM limited_queues(v_key) AS q(queue)
                WHERE v_free = 1000
                    OR (SELECT count(*) FROM unnest(v_woken) AS w WHERE w = q.queue) < v_free);
            v_result := v_result || v_woken;
        END IF;
        PERFORM plan_look(ARRAY[v_key]);
        IF v_left <> '{}' THEN
            UPDATE limit_keys SET look_at = clock() + interval '0.1 s' WHERE key = v_key;
        END IF;
    END LOOP;
    RETURN v_result;
END $$;
