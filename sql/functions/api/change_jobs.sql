-- Retries, cancels, deletes or moves these jobs as one step of a bulk: at most 1,000, in one short
-- transaction. They come from find_jobs, whole lanes together. A move gives them the priority
-- p_priority, the queue p_queue, or both. Returns the outcome for each:
--   done      it is changed
--   asked     it is running, and its worker is asked to abort it (p_abort)
--   running   a worker has it
--   retrying  its lanes wait for its next attempt, so it cannot be moved
--   waiting   it is already waiting to run
--   ended     it has ended, so it cannot be cancelled or moved
--   changed   it no longer matches the filter: it has ended, started again or been moved since it
--             was found
--   gone      it was deleted
--   busy      another session has it or its lanes locked: try it again
--
-- Never waits while it holds a lane: it takes all of its lanes first, then the jobs, and leaves
-- those that it does not get. Each job is checked again under its locks, so two bulks at once
-- change it only once.
--
-- With p_by, lane_audit gets one row for the step, with the number of jobs and the filter in words,
-- rather than one per job.
CREATE OR REPLACE FUNCTION change_jobs(
    p_action   text,          -- retry, cancel, delete, move
    p_ids      bigint[],
    p_filter   job_filter,    -- with statuses
    p_abort    boolean DEFAULT false,
    p_by       text DEFAULT NULL,
    p_priority integer DEFAULT NULL,
    p_queue    text DEFAULT NULL
) RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_held   text[];
    v_locked bigint[];
    v_from   timestamptz;   -- those that have ended did so in this time: skip the other days
    v_until  timestamptz;
    v_result record;   -- ids, and the outcome for each
    v_done   bigint[];
    v_asked  bigint[];
    v_gone   bigint;
BEGIN
    PERFORM require_settings();
    IF coalesce(p_action, '') <> ALL ('{retry,cancel,delete,move}') OR (p_filter).statuses IS NULL
        OR cardinality(p_ids) > 1000
        OR (p_action = 'move') <> (num_nonnulls(p_priority, p_queue) > 0) THEN
        RAISE EXCEPTION 'action: must be retry, cancel, delete, or move with a priority or a '
            'queue, of at most 1,000 jobs that are chosen by their statuses'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF has_invalid_queue(ARRAY[p_queue]) THEN
        PERFORM raise_invalid_queue(ARRAY[p_queue]);
    END IF;
    -- Before any lane: a new history partition waits for its users, and they for it.
    LOCK TABLE finished_jobs IN ROW EXCLUSIVE MODE;
    -- A finished job concerns a lane only if it has halted it.
    v_held := try_lock_lanes(ARRAY(
        SELECT lane FROM jobs CROSS JOIN LATERAL unnest(lanes_of(lock, locks)) AS lane
        WHERE jobs.id = ANY (p_ids)
        UNION ALL
        SELECT lane FROM finished_jobs AS job
        CROSS JOIN LATERAL unnest(lanes_of(job.lock, job.locks)) AS lane
        WHERE job.id = ANY (p_ids) AND EXISTS (
            SELECT FROM lanes WHERE lanes.lock = ANY (lanes_of(job.lock, job.locks))
                AND lanes.failed_job_id = job.id)));
    -- From here on, they stay in their lanes.
    v_locked := ARRAY(
        SELECT jobs.id FROM jobs
        WHERE jobs.id = ANY (p_ids)
            AND coalesce(lanes_of(jobs.lock, jobs.locks), '{}') <@ v_held
        ORDER BY jobs.id FOR UPDATE SKIP LOCKED);
    v_locked := v_locked || ARRAY(
        SELECT job.id FROM finished_jobs AS job
        WHERE job.id = ANY (p_ids) AND NOT EXISTS (
            SELECT FROM lanes WHERE lanes.lock = ANY (lanes_of(job.lock, job.locks))
                AND lanes.failed_job_id = job.id AND lanes.lock NOT IN (SELECT unnest(v_held)))
        ORDER BY job.id FOR UPDATE SKIP LOCKED);
    SELECT min(finished_at), max(finished_at) INTO v_from, v_until
    FROM finished_jobs AS job WHERE job.id = ANY (v_locked);
    SELECT array_agg(asked.id) AS ids, array_agg(asked.outcome) AS outcomes INTO v_result
    FROM (
        SELECT each.id, CASE
            WHEN each.id IN (SELECT unnest(v_locked))
                THEN judge_change(p_action, each.id, p_filter, p_abort, v_from, v_until)
            WHEN EXISTS (SELECT FROM jobs WHERE jobs.id = each.id) OR EXISTS (
                SELECT FROM finished_jobs AS job WHERE job.id = each.id) THEN 'busy'
            ELSE 'gone' END AS outcome
        FROM (SELECT DISTINCT unnest(p_ids) AS id ORDER BY 1) AS each
    ) AS asked;
    SELECT coalesce(array_agg(each.id ORDER BY each.id)
            FILTER (WHERE each.outcome = 'done'), '{}'),
        array_agg(each.id) FILTER (WHERE each.outcome = 'asked')
    INTO v_done, v_asked FROM unnest(v_result.ids, v_result.outcomes) AS each(id, outcome);

    IF p_action = 'retry' THEN
        PERFORM retry_in_bulk(each, p_by, v_from, v_until) FROM unnest(v_done) AS each;
    ELSIF p_action = 'move' THEN
        PERFORM move_waiting(v_done, p_priority, p_queue);
    ELSIF v_done <> '{}' THEN
        PERFORM remove_waiting(v_done);
    END IF;
    IF p_action = 'delete' THEN
        WITH gone AS (
            -- Those that waited have ended just now.
            DELETE FROM finished_jobs AS job
            WHERE job.id = ANY (v_done)
                AND job.finished_at >= least(v_from, clock() - interval '1 day')
            RETURNING keep_uncounted(job, job.tableoid, job.xmin, job.ctid)
        )
        SELECT count(*) INTO v_gone FROM gone;
        DELETE FROM progress WHERE job_id IN (SELECT unnest(v_done));
    END IF;
    UPDATE jobs SET abort = true WHERE jobs.id = ANY (v_asked);
    PERFORM pg_notify(current_schema(), '!') WHERE v_asked IS NOT NULL;
    PERFORM reopen_lane(lane) FROM unnest(v_held) AS lane;
    IF p_by IS NOT NULL THEN
        PERFORM audit(step.operation, (p_filter).lock, cardinality(step.ids), p_by,
            concat_ws(', ', 'to priority ' || p_priority, 'to queue ' || p_queue,
                describe_filter(p_filter)),
            CASE cardinality(step.ids) WHEN 1 THEN step.ids[1] END)
        FROM (VALUES (p_action || '-jobs', v_done), ('abort-jobs', v_asked))
            AS step(operation, ids)
        WHERE step.ids <> '{}';
    END IF;
    RETURN QUERY SELECT * FROM unnest(v_result.ids, v_result.outcomes);
END $$;
