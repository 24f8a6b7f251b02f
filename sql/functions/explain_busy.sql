-- Whose open transaction has a job locked, as a replace or an abort does; workers pass over the job until it is over.
CREATE OR REPLACE FUNCTION explain_busy(p_id bigint) RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'busy',
        'an open transaction has job ' || p_id || ' locked, to replace it perhaps: process ' || pid || ' of the server'
            || coalesce(', since ' || (SELECT xact_start FROM pg_stat_activity AS activity WHERE activity.pid = locks.pid), ''),
        'commit it or roll it back; if nobody can: SELECT pg_terminate_backend(' || pid || ')'
    FROM jobs JOIN pg_locks AS locks ON locktype = 'transactionid' AND transactionid = jobs.xmax AND granted
    WHERE jobs.id = p_id AND is_touched(jobs.xmin, jobs.xmax) AND pid <> pg_backend_pid()
$$;
