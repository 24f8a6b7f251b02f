-- The open transactions of this database's clients, and prepared ones, the oldest first. Then the
-- oldest queries of standbys that send feedback, perhaps through a slot. You see only those that
-- your role may see.
CREATE OR REPLACE VIEW open_transactions AS
SELECT one.pid, one.application, one.state,
       CASE WHEN one.since IS NOT NULL THEN greatest(now.at - one.since, interval '0') END AS age,
       (SELECT array_agg(DISTINCT pg_class.relname::text ORDER BY pg_class.relname::text)
        FROM pg_locks JOIN pg_class ON pg_class.oid = pg_locks.relation
        WHERE (pg_locks.pid = one.pid
              OR pg_locks.pid IS NULL AND pg_locks.virtualtransaction = one.prepared)
          AND pg_locks.mode IN (
              'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
          AND pg_class.relkind IN ('r', 'p') AND pg_class.relnamespace =
              (SELECT relnamespace FROM pg_class WHERE oid = 'jobs'::regclass)) AS tables,
       age(one.oldest) AS transactions
FROM (
    SELECT pid, coalesce(application_name, '') AS application, coalesce(state, '') AS state,
           xact_start AS since, NULL AS prepared, coalesce(backend_xmin, backend_xid) AS oldest
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND backend_type = 'client backend' AND xact_start IS NOT NULL
    UNION ALL
    -- Its locks have no process. The lock on its own id identifies them.
    SELECT NULL, gid, 'prepared', prepared,
           (SELECT virtualtransaction FROM pg_locks
            WHERE locktype = 'transactionid' AND transactionid = pg_prepared_xacts.transaction
              AND granted AND pid IS NULL), transaction
    FROM pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    -- Only the standby knows when its query began.
    SELECT pid, application_name, 'standby', NULL, NULL, backend_xmin
    FROM pg_stat_replication WHERE backend_xmin IS NOT NULL
    UNION ALL
    SELECT NULL, slot_name, 'slot', NULL, NULL, xmin
    FROM pg_replication_slots WHERE xmin IS NOT NULL
) AS one
-- Read once, or ages would not be in the order of the transactions.
CROSS JOIN (SELECT clock_timestamp() AS at) AS now
ORDER BY one.since;

COMMENT ON VIEW open_transactions IS
    'Open transactions of this database, the oldest first, and those of standbys.';
COMMENT ON COLUMN open_transactions.pid IS
    'The server process; NULL: it is prepared, or a slot holds it.';
COMMENT ON COLUMN open_transactions.application IS
    'The client, prepared transaction, standby or slot.';
COMMENT ON COLUMN open_transactions.state IS
    'As in pg_stat_activity; prepared: it stays open until it is ended by hand; standby, slot: a '
    'query on a standby needs old rows.';
COMMENT ON COLUMN open_transactions.age IS
    'How long ago it began, or was prepared; NULL: only the standby knows.';
COMMENT ON COLUMN open_transactions.tables IS
    'Tables of the queue that it has locked against writes, or waits to lock.';
COMMENT ON COLUMN open_transactions.transactions IS
    'Transactions begun since the oldest one whose rows it keeps from being removed.';
