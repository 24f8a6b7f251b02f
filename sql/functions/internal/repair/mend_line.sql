-- Rebuilds the line of a lane (see line_is_wrong). Rows of jobs that are not in line there are
-- deleted, and the first jobs take their places in all of their lanes. Reads the whole line.
CREATE OR REPLACE FUNCTION mend_line(p_lock text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[];
    v_job record;
BEGIN
    WITH wrong AS (
        DELETE FROM waits WHERE waits.lock = p_lock AND NOT EXISTS (
            SELECT FROM jobs
            WHERE jobs.id = waits.id AND jobs.priority = waits.priority
                AND status IN ('todo', 'blocked', 'limited', 'paused') AND keeps_lanes IS NULL
                AND p_lock = ANY (locks[2:]))
        RETURNING waits.id
    )
    SELECT array_agg(wrong.id) INTO v_ids FROM wrong;
    PERFORM join_lanes(v_ids);
    FOR v_job IN
        SELECT jobs.id, jobs.priority, jobs.locks
        FROM lane_heads(ARRAY[p_lock]) AS head JOIN jobs ON jobs.id = head.id
        WHERE head.several
    LOOP
        DELETE FROM waits
        WHERE lock = ANY (v_job.locks[2:]) AND id = v_job.id AND priority <> v_job.priority;
        PERFORM join_lanes(ARRAY[v_job.id]);
    END LOOP;
END $$;
