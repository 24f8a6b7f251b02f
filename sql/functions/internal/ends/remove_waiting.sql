-- Moves waiting jobs to the history as cancelled. The caller has locked them and their lanes, and
-- puts the lanes in order afterwards (reopen_lane).
CREATE OR REPLACE FUNCTION remove_waiting(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_kept job_lanes[] := ARRAY(
        SELECT ROW(id, locks, shared)::job_lanes FROM jobs WHERE id = ANY (p_ids) AND keeps_lanes);
BEGIN
    PERFORM FROM archive_jobs(p_ids);
    UPDATE lanes SET job_id = NULL
    WHERE job_id IN (SELECT unnest(p_ids)) AND lock = ANY (ARRAY(
        SELECT lane FROM finished_jobs AS job
        CROSS JOIN LATERAL unnest(lanes_of(job.lock, job.locks)) AS lane
        WHERE job.id = ANY (p_ids)));
    PERFORM leave_lanes(v_kept) WHERE v_kept <> '{}';
END $$;
