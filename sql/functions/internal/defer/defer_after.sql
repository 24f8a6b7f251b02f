-- Does the work of defer_jobs if some of the jobs come after others, or have several or shared
-- locks. None of the jobs is created `blocked`.
--
-- A job that comes after others is created scheduled, for now or its time, with an edge from each
-- parent. This locks no parent and waits for nothing. The next claim checks the parents
-- (await_parents).
--
-- p_after are the parents, and p_after_of gives the job of the call that each belongs to, from 1. A
-- parent's id must be older than this call, so edges alone never form a cycle. A job of a batch
-- cannot come directly after its callback; longer paths are not checked. A job has at most 1,000
-- parents.
CREATE OR REPLACE FUNCTION defer_after(
    p_tasks text[], p_args jsonb[], p_options job_options[],
    p_after bigint[], p_after_of integer[], p_on_parent parent_policy[]
) RETURNS TABLE (id bigint, is_new boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := clock();
    v_last    bigint := (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM jobs_id_seq);
    v_problem text := CASE
        WHEN (cardinality(p_after) = cardinality(p_after_of)) IS NOT TRUE
            OR EXISTS (SELECT FROM unnest(p_after_of) AS place
                       WHERE (place BETWEEN 1 AND cardinality(p_tasks)) IS NOT TRUE)
            THEN 'for each parent, say to which job of the call it belongs'
        WHEN EXISTS (SELECT FROM unnest(p_after) AS parent
                     WHERE (parent BETWEEN 1 AND v_last) IS NOT TRUE)
            THEN 'there is no job '
                || coalesce((SELECT parent::text FROM unnest(p_after) AS parent
                    WHERE (parent BETWEEN 1 AND v_last) IS NOT TRUE LIMIT 1), 'NULL')
                || '; give ids of jobs that were deferred before'
        WHEN EXISTS (SELECT FROM unnest(p_after, p_after_of) AS edge(parent, place)
                     GROUP BY parent, place HAVING count(*) > 1)
            THEN 'a job is named twice'
        WHEN (SELECT max(count) FROM (SELECT count(*) FROM unnest(p_after_of) AS place
                                      GROUP BY place) AS each) > 1000
            THEN 'a job comes after at most 1,000 others'
        WHEN EXISTS (SELECT FROM unnest(p_options) WHERE queueing_lock IS NOT NULL)
            THEN 'a job with a queueing_lock cannot come after others'
        WHEN EXISTS (SELECT FROM unnest(p_after, p_after_of) AS edge(parent, place)
                     WHERE edge.parent IN (
                         SELECT callback_id FROM batches WHERE batches.id = ANY (ARRAY(
                             SELECT batch_id FROM unnest(p_options) WHERE batch_id IS NOT NULL)))
                     AND edge.parent = (
                         SELECT callback_id FROM batches
                         WHERE batches.id = (p_options[edge.place]).batch_id))
            THEN 'a job of a batch cannot come after its callback, which waits for the job'
        END;
    v_ids     bigint[];
BEGIN
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'after: %', v_problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_ids := ARRAY(SELECT nextval('jobs_id_seq') FROM unnest(p_tasks));

    INSERT INTO jobs (id, task, args, created_at, status, has_parents,
                      queue, lock, priority, scheduled_at, delayed_at, on_retry, on_failure,
                      queueing_lock, timeout, expires_at, limit_key, group_key, batch_id, locks,
                      shared, headers)
    OVERRIDING SYSTEM VALUE
    SELECT v_ids[g.position], g.task, g.args, v_now,
        CASE WHEN o.scheduled_at > v_now OR after.any THEN 'scheduled'::job_status ELSE 'todo' END,
        nullif(after.any, false), o.queue, o.lock, o.priority,
        CASE WHEN after.any THEN coalesce(o.scheduled_at, v_now) ELSE o.scheduled_at END,
        CASE WHEN after.any AND (o.scheduled_at > v_now) IS NOT TRUE THEN v_now
             ELSE o.delayed_at END,
        o.on_retry, o.on_failure, o.queueing_lock, o.timeout, o.expires_at, o.limit_key,
        o.group_key, o.batch_id, o.locks, o.shared, o.headers
    FROM unnest(p_tasks, p_args) WITH ORDINALITY AS g(task, args, position)
    CROSS JOIN LATERAL (SELECT (p_options[g.position]).*) AS o
    CROSS JOIN LATERAL (SELECT g.position IN (SELECT unnest(p_after_of)) AS any) AS after
    ORDER BY g.position;

    INSERT INTO edges (parent, child, on_parent)
    SELECT edge.parent, v_ids[edge.place], coalesce(p_on_parent[edge.place], 'cancel')
    FROM unnest(p_after, p_after_of) AS edge(parent, place);

    PERFORM join_lanes(v_ids)
    WHERE EXISTS (SELECT FROM unnest(p_options) WHERE locks IS NOT NULL);
    PERFORM notify_workers(ARRAY(SELECT queue FROM unnest(p_options)));
    RETURN QUERY SELECT new, true FROM unnest(v_ids) AS new;
END $$;
