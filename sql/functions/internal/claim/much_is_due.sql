-- Returns whether so much is due that a claim should leave most of it to `settle`: more than 20 of
-- a kind, or 20 jobs behind the first end or gate. Each argument is true if something of its kind
-- is due.
CREATE OR REPLACE FUNCTION much_is_due(
    p_now timestamptz, p_jobs boolean, p_expiries boolean, p_ends boolean, p_batches boolean,
    p_looks boolean
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce(
        (SELECT true FROM jobs
         WHERE status = 'scheduled' AND scheduled_at::timestamptz <= p_now AND p_jobs
         OFFSET 20 LIMIT 1),
        (SELECT true FROM jobs
         WHERE expires_at::timestamptz <= p_now AND expires_at IS NOT NULL
            AND NOT (status = 'doing') AND NOT was_attempted AND p_expiries
         OFFSET 20 LIMIT 1),
        (SELECT true FROM ends WHERE look_at <= p_now AND p_ends OFFSET 20 LIMIT 1),
        (SELECT true FROM edges
         WHERE parent = (SELECT job_id FROM ends WHERE look_at <= p_now AND p_ends
                         ORDER BY look_at, seq LIMIT 1)
         OFFSET 20 LIMIT 1),
        (SELECT true FROM batch_events WHERE due_at <= p_now AND p_batches OFFSET 20 LIMIT 1),
        (SELECT true FROM gates WHERE look_at <= p_now AND p_looks OFFSET 20 LIMIT 1),
        (SELECT true FROM gated_jobs
         WHERE gate = (SELECT key FROM gates WHERE look_at <= p_now AND p_looks
                       ORDER BY look_at LIMIT 1)
         OFFSET 20 LIMIT 1),
        (SELECT true FROM gated_jobs
         WHERE gate = (SELECT key FROM gate_looks WHERE p_looks ORDER BY key DESC LIMIT 1)
         OFFSET 20 LIMIT 1),
        false);
END $$;
