-- Describes whose open transactions have a row of this table locked, or are changing it. A
-- transaction that has locked a row also has a lock on its table, which tells it from other
-- transactions that the number in the row could mean.
--
-- A worker's own session and a transaction younger than two seconds get no name and no remedy: they
-- end by themselves, and ending a worker's session does harm. An owner that is not a member of
-- pg_read_all_stats sees no ages. A prepared transaction has no process, and ends only if a person
-- ends it.
CREATE OR REPLACE FUNCTION locking_processes(p_what text, p_xmin xid, p_xmax xid, p_table oid)
    RETURNS TABLE (detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT
        'an open transaction has ' || p_what || ' locked: ' || CASE
            WHEN passes THEN 'it should end within seconds'
            WHEN gid IS NOT NULL
            THEN 'it was prepared as ' || quote_literal(gid) || ' at ' || since
            ELSE 'process ' || pid || ' of the server' || coalesce(', since ' || since, '') END,
        CASE WHEN gid IS NOT NULL
             THEN 'if it is abandoned: ROLLBACK PREPARED ' || quote_literal(gid)
             WHEN NOT passes THEN
            CASE WHEN since IS NULL THEN 'if it is still there in some seconds, ' ELSE '' END
                || 'commit it or roll it back; if you cannot: SELECT pg_terminate_backend('
                || pid || ')'
        END
    FROM (
        SELECT locks.pid, prepared.gid, coalesce(activity.xact_start, prepared.prepared) AS since,
            prepared.gid IS NULL AND (coalesce(activity.application_name IN (
                'inturn worker', 'inturn task', 'inturn maintenance', 'inturn heartbeat',
                'inturn schedule'), false)
            -- The server's own time, because a test cannot set that of pg_stat_activity either.
            OR coalesce(activity.xact_start > clock_timestamp() - interval '2 s', false)) AS passes
        FROM locking_transactions(p_xmax) AS locker(xid)
        JOIN pg_locks AS locks
            ON locktype = 'transactionid' AND transactionid = locker.xid AND granted
        LEFT JOIN pg_stat_activity AS activity ON activity.pid = locks.pid
        LEFT JOIN pg_prepared_xacts AS prepared
            ON locks.pid IS NULL AND prepared.transaction = locker.xid
        WHERE is_touched(p_xmin, p_xmax) AND locks.pid IS DISTINCT FROM pg_backend_pid()
            AND EXISTS (
                SELECT FROM pg_locks AS own
                WHERE own.virtualtransaction = locks.virtualtransaction AND own.relation = p_table)
    ) AS locker
$$;
