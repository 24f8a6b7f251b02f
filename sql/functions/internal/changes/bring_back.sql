-- Makes a failed job with `locks` the first of its lanes again, if it still halts all of them and
-- only other readers hold them. Otherwise it waits in line like any other job, and only p_lock
-- resumes. The caller has locked the lanes and restored the job.
CREATE OR REPLACE FUNCTION bring_back(p_lock text, p_job job_lanes) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM lanes
        WHERE lock = ANY (p_job.locks) AND failed_job_id = p_job.id AND worker_id IS NULL
            AND (readers IS NULL OR lock = ANY (p_job.shared))) < cardinality(p_job.locks) THEN
        PERFORM clear_stop(p_lock);
        RETURN;
    END IF;
    PERFORM leave_line(id, priority, locks) FROM jobs WHERE id = p_job.id;
    UPDATE jobs SET keeps_lanes = true WHERE id = p_job.id;
    UPDATE lanes SET readers = coalesce(readers, 0) + 1 WHERE lock = ANY (p_job.shared);
    PERFORM clear_stop(lane, CASE WHEN coalesce(lane <> ALL (p_job.shared), true) THEN p_job.id END)
    FROM unnest(p_job.locks) AS lane;
END $$;
