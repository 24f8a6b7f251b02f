-- Returns jobs that had not ended when their batch did, and callbacks that started before that
-- (`batch`). A job that became due again after its batch had ended was run again by a person. So
-- was a callback that became due before: the end of its batch would have made it due. After several
-- attempts, nobody knows when it first was. If a batch ended before it was opened or closed, the
-- clock was set back.
CREATE OR REPLACE FUNCTION judge_batches(p_runs job_run[], p_after bigint, p_calls interval)
    RETURNS SETOF observation
LANGUAGE sql STABLE AS $$
    WITH pair AS (
        SELECT run.*, batches.ended_at AS batch_end, callback_id = run.id IS TRUE AS calls_back,
            greatest(opened_at, closed_at) > batches.ended_at AS is_turned_back
        FROM unnest(p_runs) AS run
        JOIN LATERAL (SELECT * FROM batches WHERE batches.id = run.batch_id LIMIT 1) AS batches
            ON true
        WHERE run.id > p_after AND run.batch_id IS NOT NULL
    ), seen AS (
        SELECT pair.*, least(sure_at, began_at + p_calls) < batch_end AS sure,
            due_at < coalesce(batch_end, 'infinity') OR attempts > 1 AS excused,
            format('started at %s, before its batch %s ended at %s', began_at, batch_id,
                batch_end) AS text,
            began_at AS first_at, batch_end AS last_at
        FROM pair WHERE calls_back AND ran AND began_at < coalesce(batch_end, 'infinity')
        UNION ALL
        SELECT pair.*, ended_at > batch_end + p_calls, due_at >= batch_end,
            format('ended at %s, after its batch %s ended at %s', ended_at, batch_id, batch_end),
            batch_end, ended_at
        FROM pair WHERE NOT calls_back AND ended_at > batch_end
    )
    SELECT 'batch', CASE WHEN is_turned_back OR excused OR NOT sure THEN 'unsure' ELSE 'broken' END,
        CASE WHEN is_turned_back THEN 'clock set back' WHEN excused THEN 'retry'
             WHEN NOT sure THEN 'waiting call' END, locks[1], id,
        NULL::bigint, text, first_at, last_at
    FROM seen
$$;
