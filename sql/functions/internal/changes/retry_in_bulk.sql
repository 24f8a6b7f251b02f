-- Retries one job of a bulk. The caller has locked it and the lanes that it halts. If it has
-- ended, it did so between p_from and p_until.
--
-- A job that halted its lane goes first there. But if an older job of the lane has already been
-- brought back, the two run in order.
CREATE OR REPLACE FUNCTION retry_in_bulk(
    p_id bigint, p_by text, p_from timestamptz, p_until timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lock text := (
        SELECT min(lanes.lock) FROM finished_jobs AS job
        JOIN lanes ON lanes.lock = ANY (lanes_of(job.lock, job.locks))
        WHERE job.id = p_id AND job.finished_at BETWEEN p_from AND p_until
            AND lanes.failed_job_id = p_id);
BEGIN
    IF v_lock IS NULL THEN
        PERFORM retry_at_its_place(p_id, p_from, p_until);
        RETURN;
    END IF;
    PERFORM retry_head(v_lock, p_by);
    UPDATE lanes SET job_id = NULL
    WHERE lock = v_lock AND job_id = p_id AND worker_id IS NULL
        AND (
            SELECT true FROM jobs AS mine
            JOIN jobs AS older ON older.lock = mine.lock AND older.priority = mine.priority
                AND older.status IN ('todo', 'blocked', 'limited', 'paused')
                AND older.lock IS NOT NULL
                AND older.keeps_lanes IS NULL AND older.id < mine.id AND older.was_attempted
            WHERE mine.id = p_id AND mine.locks IS NULL LIMIT 1);
END $$;
