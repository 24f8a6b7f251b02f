-- Returns whose open transactions have a job locked, for example by a replace, a skip or an
-- abort. Workers pass over the job until they end. A transaction that has locked a row also has a
-- lock on its table. That lock tells it from other transactions that the number in the row could
-- mean.
CREATE OR REPLACE FUNCTION explain_busy(p_id bigint)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT 'busy',
        'an open transaction has job ' || p_id || ' locked, perhaps to replace it: process ' || pid
            || ' of the server' || coalesce(', since ' || (
                SELECT xact_start FROM pg_stat_activity AS activity WHERE activity.pid = locks.pid
            ), ''),
        'commit it or roll it back; if nobody can: SELECT pg_terminate_backend(' || pid || ')'
    FROM jobs CROSS JOIN LATERAL locking_transactions(jobs.xmax) AS locker(xid)
    JOIN pg_locks AS locks ON locktype = 'transactionid' AND transactionid = locker.xid AND granted
    WHERE jobs.id = p_id AND is_touched(jobs.xmin, jobs.xmax) AND pid <> pg_backend_pid()
      AND EXISTS (SELECT FROM pg_locks AS own WHERE own.pid = locks.pid
          AND own.relation = jobs.tableoid)
$$;
