-- pause_task: starts no job of the task until the given time, or until it is resumed. Jobs that
-- workers have already claimed still run. A lane whose next job is of the task waits, whatever its
-- other jobs are. The task need not have jobs or be known. If it is already paused, this pause
-- replaces the earlier one without a gap, but keeps its reason if you give none.
CREATE OR REPLACE FUNCTION pause_task(
    p_task text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL,
    p_by text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF (octet_length(p_task) BETWEEN 1 AND 512) IS NOT TRUE THEN
        RAISE EXCEPTION 'task: give a name of 1 to 512 bytes'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pause('task', p_task, p_reason, p_until, p_by);
END $$;
