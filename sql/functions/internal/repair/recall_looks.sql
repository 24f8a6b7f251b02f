-- Makes looks due that lie further ahead than a look is ever planned: the clock was set back.
-- Otherwise jobs that were locked by an open transaction, and jobs with a delay, would wait for the
-- clock to catch up. Times chosen by a person or a program stay.
--
-- Bounded: it checks the first 1,000 times of each kind that lie this far ahead. Never waits.
CREATE OR REPLACE FUNCTION recall_looks() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock();
    v_key text;
    v_queues text[];
BEGIN
    UPDATE lanes SET look_at = v_now WHERE lock = ANY (ARRAY(
        SELECT lock FROM lanes WHERE lock = ANY (ARRAY(
            SELECT far.lock FROM (
                SELECT lock, look_at FROM lanes
                WHERE coalesce(look_at, stopped_until) > v_now + interval '1 s'
                ORDER BY coalesce(look_at, stopped_until) LIMIT 1000
            ) AS far WHERE far.look_at IS NOT NULL)) AND look_at IS NOT NULL
        FOR UPDATE SKIP LOCKED));
    -- The gate of a slow rate may plan its look for the next token, but it notes when it was
    -- counted.
    FOR v_key IN
        SELECT key FROM gates WHERE key = ANY (ARRAY(
            SELECT far.key FROM (
                SELECT key, refilled_at FROM gates
                WHERE look_at > v_now + interval '5 s' ORDER BY look_at LIMIT 1000
            ) AS far WHERE coalesce(far.refilled_at, 'infinity') > v_now LIMIT 10))
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM notify_workers(open_gates(ARRAY[v_key]));   -- as in check_gates
    END LOOP;
    UPDATE ends SET look_at = v_now WHERE seq = ANY (ARRAY(
        SELECT seq FROM ends WHERE look_at > v_now + interval '2 s'
        ORDER BY look_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    UPDATE batch_events SET due_at = v_now WHERE event = 'look' AND batch_id = ANY (ARRAY(
        SELECT batch_id FROM batch_events WHERE due_at > v_now + interval '2 s'
        ORDER BY due_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    -- Jobs that wait for a delay, a retry, or the next look at their parents wait for the full time
    -- again, because nothing tells how much of it is over. The length is in seconds, because a day
    -- of an interval may have 23 hours in the session's time zone.
    WITH recalled AS (
        UPDATE jobs SET delayed_at = v_now, scheduled_at = v_now
            + interval '1 s' * greatest(extract(epoch FROM scheduled_at - delayed_at), 0)
        WHERE id = ANY (ARRAY(
            SELECT id FROM jobs WHERE status = 'scheduled' AND delayed_at > v_now + interval '2 s'
            ORDER BY delayed_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING queue::text
    )
    SELECT array_agg(DISTINCT queue) INTO v_queues FROM recalled;
    PERFORM notify_workers(v_queues) WHERE v_queues IS NOT NULL;   -- they sleep until the old time
END $$;
