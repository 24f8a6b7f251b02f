-- Returns why others go before a job with a group that could start: older jobs of its group, and
-- between them the turns of the other groups of its queue and priority. Counts up to 1,000 jobs and
-- 100 groups.
CREATE OR REPLACE FUNCTION explain_turn(p_job jobs)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue   text[] := ARRAY[p_job.queue::text];
    v_older   bigint;
    v_others  text[];
    v_between bigint;   -- how many jobs of other groups start between two turns of its own
    v_is_cut  boolean;
BEGIN
    v_older := (
        SELECT count(*) FROM (
            SELECT FROM jobs
            WHERE status = 'todo' AND group_key = p_job.group_key AND queue = p_job.queue
                AND (lock IS NULL)::integer IN (0, 1) AND priority = p_job.priority
                AND id < p_job.id
            LIMIT 1000) AS older);
    v_others := array_remove(ARRAY(
        SELECT unnest(next_groups(v_queue, true, p_job.priority, '', NULL, 101))
        UNION SELECT unnest(next_groups(v_queue, false, p_job.priority, '', NULL, 101))
    ), p_job.group_key::text);
    v_between := coalesce((SELECT sum(weight) FROM unnest(group_weights(v_others)) AS weight), 0)
        + CASE WHEN EXISTS (
              SELECT FROM jobs WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL
                  AND queue = p_job.queue AND priority = p_job.priority
          ) OR EXISTS (
              SELECT FROM jobs WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
                  AND queue = p_job.queue AND priority = p_job.priority
          ) THEN 1 ELSE 0 END;
    v_is_cut := v_older >= 1000 OR cardinality(v_others) >= 100;
    RETURN QUERY SELECT 'turn',
        'at ' || CASE WHEN v_is_cut THEN 'least ' ELSE 'most ' END
        || v_older + v_between * (1 + v_older / (group_weights(ARRAY[p_job.group_key::text]))[1])
        || ' jobs of queue ' || p_job.queue || ' start before it on each worker: ' || v_older
        || ' of its group ' || p_job.group_key || ', and others in turns between them',
        NULL
    WHERE v_older > 0 OR v_between > 0;
END $$;
