-- Puts the lanes of a job in order after it has left `jobs`: none of them waits for it any more. If
-- it had kept its lanes, its shares go back. The caller has locked the lanes.
CREATE OR REPLACE FUNCTION reopen_lanes(p_job job_lanes, p_kept boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lanes SET job_id = NULL WHERE lock = ANY (p_job.locks) AND job_id = p_job.id;
    IF p_kept THEN
        PERFORM leave_lanes(ARRAY[p_job]);
    END IF;
    PERFORM reopen_lane(lane) FROM unnest(p_job.locks) AS lane;
END $$;
