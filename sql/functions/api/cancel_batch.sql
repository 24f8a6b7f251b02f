-- cancel_batch: cancels the next jobs of a batch after p_after, the callback first, and closes the
-- batch. With p_abort, running jobs are asked to abort. Call it again with the `last` id that it
-- returned, each time in a new transaction, until that is NULL.
--
-- One call takes up to p_limit free jobs, or a single job that has a lane or a limit: then it locks
-- what cancel_job locks, and never waits for one lane while it holds another. Free jobs that an
-- open transaction has locked are skipped.
--
-- With p_by, the first call records in lane_audit who did it, and how many jobs had not ended.
CREATE OR REPLACE FUNCTION cancel_batch(
    p_id    bigint,
    p_after bigint  DEFAULT 0,
    p_limit integer DEFAULT 1000,
    p_abort boolean DEFAULT false,
    p_by    text    DEFAULT NULL,
    OUT cancelled bigint, OUT asked bigint, OUT last bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_next   record;
    v_status job_status;
BEGIN
    cancelled := 0;
    asked := 0;
    IF p_after = 0 THEN
        IF p_by IS NOT NULL THEN
            PERFORM audit('cancel-batch', NULL, remaining, p_by, name, NULL, p_id)
            FROM batch_status WHERE id = p_id AND state <> 'ended';
        END IF;
        PERFORM close_batch(p_id);
    END IF;
    -- A single job is usually followed by another one.
    SELECT CASE WHEN lock IS NULL AND limit_key IS NULL AND has_parents IS NOT TRUE
                THEN p_limit ELSE least(1, p_limit) END
    INTO p_limit
    FROM jobs WHERE batch_id = p_id AND batch_id IS NOT NULL AND id > p_after
    ORDER BY id LIMIT 1;
    WITH next AS MATERIALIZED (
        SELECT id, lock IS NULL AND limit_key IS NULL AND has_parents IS NOT TRUE AS free
        FROM jobs WHERE batch_id = p_id AND batch_id IS NOT NULL AND id > p_after
        ORDER BY id LIMIT p_limit
    )
    SELECT array_agg(id ORDER BY id) FILTER (WHERE free AND id < coalesce(
            (SELECT min(id) FROM next WHERE NOT free), id + 1)) AS free,
        min(id) FILTER (WHERE NOT free) AS single
    INTO v_next FROM next;

    IF v_next.free IS NULL THEN
        last := v_next.single;
        v_status := CASE WHEN last IS NOT NULL THEN cancel_job(last, p_abort) END;
        cancelled := coalesce((v_status = 'cancelled')::integer, 0);
        asked := coalesce((v_status = 'doing' AND p_abort)::integer, 0);
        RETURN;
    END IF;
    last := v_next.free[cardinality(v_next.free)];
    v_next.free := ARRAY(SELECT id FROM jobs WHERE id = ANY (v_next.free) FOR UPDATE SKIP LOCKED);
    SELECT count(*) INTO cancelled FROM archive_jobs(v_next.free);
    IF p_abort THEN
        UPDATE jobs SET abort = true WHERE id = ANY (v_next.free) AND status = 'doing';
        GET DIAGNOSTICS asked = ROW_COUNT;
        PERFORM pg_notify(current_schema(), '!') WHERE asked > 0;
    END IF;
END $$;
