-- Returns the pauses that keep jobs of this queue from starting, as reasons.
CREATE OR REPLACE FUNCTION explain_pause(p_queue text)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'queue paused',
        CASE queue WHEN '' THEN 'all queues are' ELSE 'queue ' || queue || ' is' END
            || ' paused by ' || paused_by || ' since ' || paused_at
            || coalesce(' until ' || until, '') || coalesce(': ' || pause.reason, ''),
        'queue queues resume ' || CASE queue WHEN '' THEN '--all' ELSE shell_argument(queue) END
    FROM queue_pauses AS pause
    WHERE queue IN (p_queue, '') AND (until > clock()) IS NOT FALSE
    ORDER BY queue
$$;
