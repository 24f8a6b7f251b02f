-- Returns whether so much is due that a claim with jobs to start should leave it to `settle`: more
-- than p_little of a kind, or of the jobs that pass with the first end or gate. Each argument of a
-- kind is true if something of it is due.
CREATE OR REPLACE FUNCTION much_is_due(
    p_little integer, p_now timestamptz, p_jobs boolean, p_expiries boolean, p_ends boolean,
    p_batches boolean, p_looks boolean
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_gate text;
BEGIN
    IF p_looks THEN
        v_gate := coalesce((SELECT key FROM gates WHERE look_at <= p_now ORDER BY look_at LIMIT 1),
                           (SELECT key FROM gate_looks ORDER BY key DESC LIMIT 1));
    END IF;
    RETURN coalesce(
        (SELECT true FROM jobs
         WHERE status = 'scheduled' AND scheduled_at::timestamptz <= p_now AND p_jobs
         OFFSET p_little LIMIT 1),
        (SELECT true FROM jobs
         WHERE expires_at::timestamptz <= p_now AND expires_at IS NOT NULL
            AND NOT (status = 'doing') AND NOT was_attempted AND p_expiries
         OFFSET p_little LIMIT 1),
        (SELECT true FROM ends WHERE look_at <= p_now AND p_ends OFFSET p_little LIMIT 1),
        (SELECT true FROM edges
         WHERE parent = (SELECT job_id FROM ends WHERE look_at <= p_now AND p_ends
                         ORDER BY look_at, seq LIMIT 1)
         OFFSET p_little LIMIT 1),
        (SELECT true FROM batch_events WHERE due_at <= p_now AND p_batches OFFSET p_little LIMIT 1),
        (SELECT true FROM lanes
         WHERE coalesce(look_at, stopped_until) <= p_now AND p_looks OFFSET p_little LIMIT 1),
        (SELECT true FROM gates WHERE look_at <= p_now AND p_looks OFFSET p_little LIMIT 1),
        -- A limit with little room lets few of its jobs pass, however many wait.
        (SELECT coalesce(now.free > p_little, true) FROM gates AS own
         LEFT JOIN LATERAL gate_rule(own.key) AS rule ON true
         CROSS JOIN LATERAL fold_key(own, rule) AS now
         WHERE own.key = v_gate)
            AND (SELECT true FROM gated_jobs WHERE gate = v_gate OFFSET p_little LIMIT 1),
        false);
END $$;
