-- Returns whose open transactions have a row of this table locked, or are changing it. A
-- transaction that has locked a row also has a lock on its table. That lock tells it from other
-- transactions that the number in the row could mean.
CREATE OR REPLACE FUNCTION locking_processes(p_xmin xid, p_xmax xid, p_table oid)
    RETURNS TABLE (pid integer, since timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT locks.pid, (
        SELECT xact_start FROM pg_stat_activity AS activity WHERE activity.pid = locks.pid)
    FROM locking_transactions(p_xmax) AS locker(xid)
    JOIN pg_locks AS locks ON locktype = 'transactionid' AND transactionid = locker.xid AND granted
    WHERE is_touched(p_xmin, p_xmax) AND locks.pid <> pg_backend_pid()
      AND EXISTS (SELECT FROM pg_locks AS own WHERE own.pid = locks.pid AND own.relation = p_table)
$$;
