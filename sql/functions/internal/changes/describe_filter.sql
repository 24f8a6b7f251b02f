-- Describes the jobs that a bulk selects, for its rows in lane_audit. Statuses are left out if the
-- jobs were chosen by id.
CREATE OR REPLACE FUNCTION describe_filter(p_filter job_filter) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT left(concat_ws(', ',
        CASE WHEN (p_filter).ids IS NULL
            THEN array_to_string((p_filter).statuses, ' or ') END,
        'queue ' || (p_filter).queue,
        'task ' || (p_filter).task,
        'lock ' || (p_filter).lock,
        'lock ' || (p_filter).lock_prefix || '*',
        'queueing lock ' || (p_filter).queueing_lock,
        'worker ' || (p_filter).worker_id,
        'batch ' || (p_filter).batch_id,
        'group ' || (p_filter).group_key,
        'error ' || to_json((p_filter).error),
        'before ' || to_char((p_filter).before AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || 'Z',
        'of ' || cardinality((p_filter).ids) || ' chosen: '
            || array_to_string((p_filter).ids[:20], ' ')
            || CASE WHEN cardinality((p_filter).ids) > 20 THEN ' …' ELSE '' END
    ), 1000)
$$;
