-- Returns jobs that took a slot of their limit although all were taken (`limit`).
--
-- Goes through the starts of each key in the order of their fences, and keeps the ends of the jobs
-- that run. A job that ended after a later one surely ran (`sure_at`) had a slot beside it. Today's
-- limits are applied, and starts before the last change of a limit are not judged.
CREATE OR REPLACE FUNCTION judge_limits(p_runs job_run[], p_after bigint, p_calls interval)
    RETURNS SETOF observation
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_run   job_run;
    v_key   text;
    v_slots integer;
    v_ids   bigint[];      -- jobs of the key that run
    v_ends  timestamptz[];
    v_more  record;
BEGIN
    FOR v_run IN
        SELECT run.* FROM unnest(p_runs) AS run WHERE run.ran AND run.limit_key IS NOT NULL
        ORDER BY run.limit_key, run.fence
    LOOP
        IF v_run.limit_key IS DISTINCT FROM v_key THEN
            v_key := v_run.limit_key;
            v_slots := (SELECT slots FROM find_limit(v_key));
            v_ids := '{}';
            v_ends := '{}';
        END IF;
        CONTINUE WHEN v_slots IS NULL;
        SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(ends_at), '{}') AS ends,
            count(*) FILTER (WHERE ends_at > v_run.sure_at) AS sure, max(id) AS newest,
            min(ends_at) FILTER (WHERE ends_at > v_run.sure_at) AS first_end,
            min(id) AS other
        INTO v_more FROM unnest(v_ids, v_ends) AS near(id, ends_at)
        WHERE ends_at > v_run.started_at;
        IF cardinality(v_more.ids) >= v_slots AND greatest(v_run.id, v_more.newest) > p_after
            AND (v_run.started_at > limit_changed_at(v_key) + p_calls) IS NOT FALSE THEN
            RETURN NEXT ROW('limit',
                CASE WHEN v_more.sure >= v_slots THEN 'broken' ELSE 'unsure' END,
                CASE WHEN v_more.sure < v_slots THEN 'waiting call' END,
                v_run.locks[1], v_run.id, v_more.other,
                format('started at %s, while %s others of the limit %s ran, of at most %s',
                    v_run.started_at, cardinality(v_more.ids), v_key, v_slots),
                v_run.started_at, v_more.first_end)::observation;
        END IF;
        v_ids := v_more.ids || v_run.id;
        v_ends := v_more.ends || v_run.ended_at;
    END LOOP;
END $$;
