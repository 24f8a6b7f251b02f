-- Does the work of defer_jobs if some of the jobs have a queueing lock. Such a job is created only
-- if no other job waits under the lock. Otherwise p_on_conflict decides: `skip` changes nothing,
-- `replace` gives the waiting job the work of the new one, and `raise` defers nothing at all.
-- Skipping or replacing keeps the waiting job from starting until the caller's transaction ends.
--
-- A job that has expired will never start, so it waits no longer: it loses its queueing lock.
--
-- Returns, in the given order, the job that waits and whether it is new. After a conflict under
-- `raise`, only the conflicting job has is_new = false (its id is NULL if it belongs to this call),
-- and the others are NULL. No conflict aborts the caller's transaction.
--
-- If two transactions defer one queueing lock, the second waits for the first to end: only then is
-- it known whether that job exists. A job that already waits is seen without waiting, but to skip
-- or replace it, the caller waits for transactions that have locked it for themselves. Two
-- transactions that defer two queueing locks in two calls, in opposite order, deadlock, and
-- PostgreSQL ends one of them.
CREATE OR REPLACE FUNCTION defer_unless_waiting(
    p_tasks text[], p_args jsonb[], p_options job_options[], p_on_conflict conflict_policy
) RETURNS TABLE (id bigint, is_new boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock();
    v_ids bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_tasks)]);
    v_new boolean[] := array_fill(NULL::boolean, ARRAY[cardinality(p_tasks)]);
    v_job     record;
    v_options job_options;
    v_id      bigint;
    v_late    boolean;   -- its time to start is over
BEGIN
    FOR v_job IN
        -- Ids follow the given order, but rows are inserted in the order of their queueing locks,
        -- so two calls with the same locks do not deadlock.
        WITH given AS MATERIALIZED (
            SELECT nextval('jobs_id_seq') AS id, g.*, (p_options[position]).queueing_lock
            FROM unnest(p_tasks, p_args) WITH ORDINALITY AS g(task, args, position)
        )
        SELECT id, task, args, position, queueing_lock
        FROM given ORDER BY queueing_lock, position
    LOOP
        v_options := p_options[v_job.position];
        -- Repeat until one answer holds: between two looks, the waiting job can start and a rival
        -- can roll back.
        LOOP
            SELECT jobs.id, coalesce(expires_at <= clock(), false) INTO v_id, v_late
            FROM jobs WHERE queueing_lock = v_job.queueing_lock
                AND status <> 'doing' AND NOT lost_queueing_lock;
            IF v_late THEN
                UPDATE jobs SET lost_queueing_lock = true
                WHERE jobs.id = v_id AND status <> 'doing'
                    AND expires_at <= clock() AND NOT was_attempted;
                CONTINUE WHEN FOUND;
            END IF;
            EXIT WHEN v_id IS NOT NULL AND (
                p_on_conflict = 'raise'
                OR p_on_conflict = 'skip' AND rely_on_waiting(v_id, v_job.queueing_lock)
                OR p_on_conflict = 'replace'
                    AND replace_waiting(v_id, v_job.task, v_job.args, v_options));

            -- Each job is its own token, because the sibling that should wake it may not be new.
            -- The last columns are those of job_options, in order.
            INSERT INTO jobs (id, task, args, created_at, status,
                              queue, lock, priority, scheduled_at, delayed_at, on_retry,
                              on_failure, queueing_lock, timeout, expires_at, limit_key,
                              group_key, batch_id, locks, shared, headers)
            OVERRIDING SYSTEM VALUE
            SELECT v_job.id, v_job.task, v_job.args, v_now,
                   CASE WHEN v_options.scheduled_at > v_now THEN 'scheduled'::job_status
                        ELSE 'todo' END,
                   v_options.*
            ON CONFLICT (queueing_lock)
            WHERE queueing_lock IS NOT NULL AND status <> 'doing' AND NOT lost_queueing_lock
            DO NOTHING
            RETURNING jobs.id INTO v_id;
            EXIT WHEN v_id IS NOT NULL;
        END LOOP;

        -- all or none; no other session has seen our rows
        IF p_on_conflict = 'raise' AND v_id <> v_job.id THEN
            DELETE FROM jobs WHERE jobs.id = ANY (v_ids);
            v_new := array_fill(NULL::boolean, ARRAY[cardinality(p_tasks)]);
            v_new[v_job.position] := false;
            v_id := CASE WHEN v_id = ANY (v_ids) THEN NULL ELSE v_id END;
            v_ids := array_fill(NULL::bigint, ARRAY[cardinality(p_tasks)]);
            v_ids[v_job.position] := v_id;
            EXIT;
        END IF;
        v_ids[v_job.position] := v_id;
        v_new[v_job.position] := v_id = v_job.id;
    END LOOP;
    PERFORM join_lanes(v_ids) WHERE EXISTS (SELECT FROM unnest(p_options) WHERE locks IS NOT NULL);
    PERFORM notify_workers(ARRAY(SELECT queue FROM unnest(p_options)))
    WHERE p_on_conflict <> 'raise' OR true = ANY (v_new);
    RETURN QUERY SELECT * FROM unnest(v_ids, v_new);
END $$;
