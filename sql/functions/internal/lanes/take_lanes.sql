-- Records in its lanes' rows that a job with `locks` starts there, and takes it out of line. It has
-- won the lanes. New rows are already its own, and a reader that kept its share still has it.
CREATE OR REPLACE FUNCTION take_lanes(
    p_worker uuid, p_job job_lanes, p_new text[], p_kept boolean
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lanes
    SET worker_id = CASE WHEN lanes.job_id IS NOT NULL THEN p_worker END,
        readers = CASE WHEN lanes.job_id IS NULL
                       THEN lanes.readers + (p_kept IS NULL)::integer END,
        since = CASE WHEN lanes.job_id IS NOT NULL THEN clock() ELSE lanes.since END,
        look_at = CASE WHEN lanes.job_id IS NULL THEN lanes.look_at END,
        job_id = NULL
    WHERE lanes.lock = ANY (p_job.locks) AND lanes.lock <> ALL (p_new);
    IF p_kept THEN
        UPDATE jobs SET keeps_lanes = NULL WHERE jobs.id = p_job.id;
    ELSE
        PERFORM leave_line(p_job.id, jobs.priority, p_job.locks) FROM jobs
        WHERE jobs.id = p_job.id;
    END IF;
END $$;
