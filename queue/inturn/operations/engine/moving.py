"""The statements that move a cell to another server; see docs/decisions/cells.md.

`inturn.cells.moving` sends them, since they go to two servers, and some change the catalogs.
"""

PREFIX = "inturn_move_"
MOVED = "_moved"  # the end of a closed schema's name
IDLE_SECONDS = 10  # after which a server ends the transaction of a mover that sleeps
# Each server has its own lock. It keeps two movers apart, and a mover from an abort.
TAKE_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('inturn move ' || %(schema)s, 0))"

# Of a migration (schema/migrate), which looks for a move only at its beginning.
AWAIT_MIGRATION = "SELECT pg_advisory_xact_lock(hashtextextended('inturn migrate ' || %s, 0))"

# What both servers tell about themselves. The copies of tables have slots only for a while.
ABOUT_SERVER = """
SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
    current_setting('max_replication_slots')::int
        - (SELECT count(*) FROM pg_replication_slots WHERE slot_name !~ '^pg_\\d+_sync_')::int,
    current_setting('max_logical_replication_workers')::int
        - (SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL)::int
"""
ENCODING = "SELECT current_setting('server_encoding')"
# Locks of a database are seen only in it. No other database, not even a copy of all its files, has
# this one.
HOLD_MARK = "SELECT pg_advisory_xact_lock(%s)"
LACKS_MARK = "SELECT pg_try_advisory_xact_lock_shared(%s)"
MAY_REPLICATE = """
SELECT rolsuper OR rolreplication OR EXISTS (
    SELECT FROM pg_roles AS hosted
    WHERE hosted.rolname IN ('rds_replication', 'azure_pg_admin', 'cloudsqlsuperuser')
      AND pg_has_role(current_user, hosted.oid, 'MEMBER'))
FROM pg_roles WHERE rolname = current_user
"""
# Without this, neither standbys nor other transactions can be seen.
MAY_WATCH = "SELECT pg_has_role('pg_read_all_stats', 'USAGE')"
# What a login needs that closes the cell.
NOT_OWNED = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %(schema)s AND relkind IN ('r', 'p', 'S') AND NOT pg_has_role(relowner, 'USAGE')
UNION ALL SELECT nspname FROM pg_namespace
WHERE nspname = %(schema)s AND NOT (pg_has_role(nspowner, 'USAGE')
    AND has_database_privilege(current_database(), 'CREATE'))
ORDER BY 1
"""
HAS_SCHEMA = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
# Returns no row if the schema does not exist.
SCHEMA_OWNER = "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %s"
HAS_TABLE = "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL"
# Whether this login can use a cell of these roles.
MAY_SERVE = """
SELECT bool_or(pg_has_role(role, 'USAGE')) FROM unnest(%s::text[]) AS role
WHERE to_regrole(quote_ident(role)) IS NOT NULL
"""
MISSING_ROLES = """
SELECT role FROM unnest(%s::text[]) AS role WHERE to_regrole(quote_ident(role)) IS NULL
"""

# On the old server.
FIND_PUBLICATION = """
SELECT DISTINCT pubname, obj_description(pg_publication.oid, 'pg_publication')
FROM pg_publication
JOIN pg_publication_rel ON prpubid = pg_publication.oid
JOIN pg_class ON pg_class.oid = prrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND starts_with(pubname, 'inturn_move_')
"""
# A slot's name is the token and a part of its own, so that a slot that is lost, as in a failover,
# cannot be taken for one that was made later.
FIND_SLOTS = """
SELECT slot_name FROM pg_replication_slots
WHERE database = current_database() AND starts_with(slot_name, %s || '_')
  AND wal_status IS DISTINCT FROM 'lost'
"""
# Counted, so that no page is held meanwhile: while others create tables, PostgreSQL may forget who
# holds it ("buffer pin is not owned by resource owner").
MAKE_SLOT = """
SELECT pg_create_logical_replication_slot(%(slot)s, 'pgoutput') FROM pg_publication
WHERE pubname = %(token)s HAVING count(*) > 0
"""
# The copy of each table makes a slot, without an end to its wait.
SLOT_WAITS = """
SELECT FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'walsender' AND wait_event = 'transactionid'
  AND strpos(query, '_sync_') > 0 AND query_start < now() - make_interval(secs => %s)
"""
# A new slot waits for these, in all databases.
WRITERS = """
SELECT pid || ' (' || coalesce(nullif(application_name, ''), usename, backend_type) || ')'
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
UNION ALL SELECT 'the prepared transaction ' || gid FROM pg_prepared_xacts
"""
# Of moves that are over, in this database.
DEAD_SLOTS = """
SELECT slot_name, active_pid FROM pg_replication_slots
WHERE database = current_database() AND starts_with(slot_name, %s)
  AND NOT EXISTS (SELECT FROM pg_publication
      WHERE starts_with(pubname, 'inturn_move_') AND starts_with(slot_name, pubname))
"""
# Flushed, so that the subscriber is sent everything before it.
MARK = "SELECT pg_logical_emit_message(true, 'inturn move', '') - '0/0'::pg_lsn"
HAS_CONFIRMED = """
SELECT confirmed_flush_lsn - '0/0'::pg_lsn >= %s FROM pg_replication_slots
WHERE slot_name = %s AND wal_status IS DISTINCT FROM 'lost'
"""
# Standbys that lack something before a position, or may lack it. What writes but never replays, as
# pg_receivewal does, cannot be promoted, and a base backup ends later. A standby that is away may
# have left a slot.
STANDBYS_BEHIND = """
SELECT name FROM (
    SELECT coalesce(nullif(application_name, ''), 'one with the pid ' || pid), flush_lsn
    FROM pg_stat_replication
    WHERE state IS DISTINCT FROM 'backup' AND NOT (write_lsn IS NOT NULL AND replay_lsn IS NULL)
      AND NOT EXISTS (SELECT FROM pg_replication_slots
          WHERE active_pid = pg_stat_replication.pid AND slot_type = 'logical')
    UNION ALL
    SELECT 'that of the slot ' || slot_name || ' (drop it if its standby is gone)', restart_lsn
    FROM pg_replication_slots
    WHERE slot_type = 'physical' AND NOT active AND restart_lsn IS NOT NULL
) AS standbys (name, reached)
WHERE coalesce(reached - '0/0'::pg_lsn < %s, true)
"""
WAL_END = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
SEQUENCES = """
SELECT relname, seqincrement FROM pg_sequence
JOIN pg_class ON pg_class.oid = seqrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s
"""
# Transactions that keep the cell from being closed, and whether they give way to a lock.
BLOCKERS = """
SELECT DISTINCT coalesce('the prepared transaction ' || gid,
        held.pid || ' (' || coalesce(nullif(application_name, ''), usename, backend_type) || ')'),
    coalesce(backend_type = 'autovacuum worker', false)
FROM pg_locks AS held
JOIN pg_class ON pg_class.oid = held.relation
JOIN pg_namespace ON pg_namespace.oid = relnamespace
LEFT JOIN pg_stat_activity ON pg_stat_activity.pid = held.pid
LEFT JOIN pg_locks AS its ON held.pid IS NULL AND its.pid IS NULL
    AND its.locktype = 'transactionid' AND its.virtualtransaction = held.virtualtransaction
LEFT JOIN pg_prepared_xacts ON pg_prepared_xacts.transaction = its.transactionid
WHERE nspname = %s AND relkind IN ('r', 'p') AND held.granted AND held.mode <> 'AccessShareLock'
  AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND coalesce(xact_start, prepared) < now() - interval '1 s'
"""

SIZE = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace = quote_ident(%s)::regnamespace
"""
DAYS = """
SELECT to_date(right(relname, 8), 'YYYYMMDD') FROM pg_inherits
JOIN pg_class ON pg_class.oid = inhrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND inhparent = (
        SELECT oid FROM pg_class AS history
        WHERE relname = 'finished_jobs' AND history.relnamespace = pg_namespace.oid)
  AND relname ~ '^finished_jobs_[0-9]{8}$'
ORDER BY 1
"""

# Sorted, since their order differs if a table was not created by the same revision.
COLUMNS = """
SELECT relname::text, array_agg(attname::text ORDER BY attname) FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
GROUP BY relname
"""
# To compare both servers. Of the history, which is large and hardly changes, only what tells a job.
SUM_ROWS = """
SELECT {name}, count(*), sum(hashtextextended(ROW({columns})::text, 0)) FROM {table}
"""
SUM_HISTORY = """
SELECT count(*), sum(hashint8extended(id, coalesce(fence, 0))) FROM {history}
WHERE finished_at < %s
"""

# On the new server. A server that goes back to an earlier state is started again, and a standby
# that replaces it was started at another time. PostgreSQL then sends only what it had not sent.
RUNS_SINCE = "SELECT pg_postmaster_start_time()"
MAKE_PARTITION = (
    "CREATE TABLE {partition} (LIKE {history})",
    "ALTER TABLE {partition} REPLICA IDENTITY FULL",
    "ALTER TABLE {history} ATTACH PARTITION {partition} FOR VALUES FROM ({day}) TO ({next})",
)
# The apply workers do not fire these triggers, which refuse all other writes.
REFUSE_WRITES = """
CREATE FUNCTION {schema}.refuse_while_moving() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION {message} USING ERRCODE = 'invalid_schema_name';
END $$
"""
REFUSE_WRITE = """
CREATE TRIGGER inturn_moving BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_while_moving()
"""
# How far the tables are copied. A copy whose slot is gone, as after a crash of this server, fails
# every few seconds, and no error is counted; and if no worker is free, the log alone tells it.
COPIED = """
SELECT count(*) FILTER (WHERE srsubstate = 'r'), count(*),
    (SELECT coalesce(sum(bytes_processed), 0) FROM pg_stat_progress_copy
     WHERE command = 'COPY FROM' AND datname = current_database())::bigint,
    (SELECT count(*) > count(relid) AND (count(relid) > 0 OR bool_and(srsubstate IN ('s', 'r')))
     FROM pg_stat_subscription WHERE subname = %(token)s AND pid IS NOT NULL),
    (SELECT coalesce(sum(apply_error_count + sync_error_count), 0)
     FROM pg_stat_subscription_stats WHERE subname = %(token)s)::bigint
FROM pg_subscription_rel JOIN pg_subscription ON pg_subscription.oid = srsubid
WHERE subname = %(token)s
"""
FIND_SUBSCRIPTION = "SELECT subslotname FROM pg_subscription WHERE subname = %s"
SOURCE = "SELECT subconninfo FROM pg_subscription WHERE subname = %s"  # only superusers see it
# How far this server has received what the old one sends, or NULL if it is not connected to it.
RECEIVED = """
SELECT max(received_lsn) - '0/0'::pg_lsn FROM pg_stat_subscription
WHERE subname = %s AND pid IS NOT NULL AND relid IS NULL
"""
# Another home may have given numbers that this one does not know. A billion steps take it hours.
RAISE_SEQUENCES = """
DO $$
DECLARE
    v_cell integer := (SELECT number FROM cell);
    v_jobs bigint := (SELECT greatest(
        (SELECT max(id) FROM jobs), (SELECT max(id) FROM finished_jobs), last_value)
        FROM jobs_id_seq);
    v_batches bigint := (SELECT greatest((SELECT max(id) FROM batches), last_value)
        FROM batches_id_seq);
BEGIN
    EXECUTE format('ALTER SEQUENCE jobs_id_seq INCREMENT BY 1024 RESTART %s',
        ((v_jobs >> 10) + 1000000000) * 1024 + v_cell);
    EXECUTE format('ALTER SEQUENCE batches_id_seq INCREMENT BY 1024 RESTART %s',
        ((v_batches >> 10) + 1000000000) * 1024 + v_cell);
    PERFORM setval('ends_seq_seq', 1000000000
        + (SELECT greatest((SELECT max(seq) FROM ends), last_value) FROM ends_seq_seq));
    PERFORM setval('lane_audit_id_seq', 1000000000
        + (SELECT greatest((SELECT max(id) FROM lane_audit), last_value) FROM lane_audit_id_seq));
    PERFORM setval('fences', needed) FROM sequences_behind() WHERE sequence = 'fences';
    PERFORM setval('fences', next_epoch(last_value,
        coalesce(timeline(), (last_value >> 40) & 65535))) FROM fences;
END $$
"""
# The workers' heartbeats stopped when the old home closed. From now on, each worker has the usual
# time to find the new home before its jobs are taken from it.
OPEN = """
UPDATE cell SET home = cell_home();
UPDATE workers SET heartbeat_at = clock(),
    loop_turned_at = loop_turned_at + (clock() - heartbeat_at);
SELECT grant_to(role, kind) FROM granted_roles
WHERE to_regrole(quote_ident(role)) IS NOT NULL;
"""
# A function keeps the name of its schema in its search_path.
FUNCTIONS = """
SELECT pg_proc.oid::regprocedure::text FROM pg_proc
JOIN pg_namespace ON pg_namespace.oid = pronamespace
WHERE nspname = %s AND EXISTS (
    SELECT FROM unnest(proconfig) AS setting WHERE starts_with(setting, 'search_path='))
"""
# For a migration: whether the schema is being moved, and where it was moved to if it is gone.
IS_MOVING = """
SELECT
    coalesce(starts_with(obj_description(to_regnamespace(quote_ident(%(schema)s)), 'pg_namespace'),
        'inturn_move_'), false)
    OR EXISTS (
        SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = %(schema)s AND (
            EXISTS (SELECT FROM pg_publication_rel
                JOIN pg_publication ON pg_publication.oid = prpubid
                WHERE prrelid = pg_class.oid AND starts_with(pubname, 'inturn_move_'))
            OR EXISTS (SELECT FROM pg_subscription_rel
                JOIN pg_subscription ON pg_subscription.oid = srsubid
                WHERE srrelid = pg_class.oid AND starts_with(subname, 'inturn_move_')))),
    (SELECT substring(obj_description(oid, 'pg_namespace') FROM '^inturn_move_[^ ]+ (.*)')
     FROM pg_namespace
     WHERE nspname = %(moved)s
       AND NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s))
"""
