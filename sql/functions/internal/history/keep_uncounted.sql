-- Keeps what the rollup needs of a row that leaves the history before it was counted (see roll_up).
-- Call it in the statement that deletes or changes the row. Always returns true.
--
-- A row that this transaction has added itself is left out: no other session has seen that end. A
-- row outside the days counts as ended by this transaction, because nothing counts it in place. Ids
-- wrap around: a row older than two thousand million transactions seems to come from the future.
CREATE OR REPLACE FUNCTION keep_uncounted(p_job finished_jobs, p_table oid, p_xact xid, p_place tid)
    RETURNS boolean
LANGUAGE plpgsql
SET timezone = 'UTC'
AS $$
DECLARE
    v_day   date := p_job.finished_at::date;
    v_below bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    v_xact  bigint := v_below + age((v_below & 4294967295)::text::xid) - age(p_xact);
    v_page  bigint := (p_place::text::point)[0];
BEGIN
    IF EXISTS (
        SELECT FROM rollup_days
        WHERE day = v_day AND (due_at IS NULL OR v_xact < counted_below)
            AND p_table = to_regclass(history_table(v_day))
    ) THEN
        RETURN true;
    ELSIF age(p_xact) <= 0 THEN   -- our own is never older
        BEGIN
            IF pg_xact_status(v_xact::text::xid8) = 'in progress' THEN
                RETURN true;
            END IF;
        EXCEPTION WHEN invalid_parameter_value THEN   -- it seems to come from the future
            v_xact := v_xact - 4294967296;
        END;
    END IF;
    IF p_table IS DISTINCT FROM to_regclass(history_table(v_day)) THEN
        v_xact := pg_current_xact_id()::text::bigint;
        v_page := 0;
    END IF;
    INSERT INTO uncounted_ends (day, page, xact, queue, task, status, created_at, scheduled_at,
        started_at, finished_at)
    VALUES (v_day, v_page, v_xact, p_job.queue, p_job.task, p_job.status, p_job.created_at,
        p_job.scheduled_at, p_job.started_at, p_job.finished_at);
    RETURN true;
END $$;
