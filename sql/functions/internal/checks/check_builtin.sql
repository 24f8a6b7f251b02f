-- Keeps producers from deferring built-in tasks, which run with a worker's rights. (The only one
-- deletes old jobs.) Callers check the prefix first, because hardly any job has it.
CREATE OR REPLACE FUNCTION check_builtin(p_tasks text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_task text := (SELECT min(task) FROM unnest(p_tasks) AS task WHERE task ^@ 'builtin:');
BEGIN
    IF v_task IS NOT NULL AND NOT has_function_privilege(session_user,
        'delete_old_jobs(interval, text, job_status[])', 'EXECUTE') THEN
        RAISE EXCEPTION '% is built in. Only a role that may delete old jobs may defer it',
            quote_literal(v_task) USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
