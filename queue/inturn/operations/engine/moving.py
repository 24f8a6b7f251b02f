"""The statements that move a cell to another server; see docs/decisions/cells.md.

`inturn.cells.moving` sends them, since they go to two servers, and some change the catalogs.
"""

PREFIX = "inturn_move_"
MOVED = "_moved"  # the end of a closed schema's name
IDLE_SECONDS = 10  # after which a server ends the transaction of a mover that sleeps
# Each server has its own lock. It keeps two movers apart, and a mover from an abort.
TAKE_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('inturn move ' || %(schema)s, 0))"

# What both servers tell about themselves.
ABOUT_SERVER = """
SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
    current_setting('max_replication_slots')::int
        - (SELECT count(*) FROM pg_replication_slots)::int,
    current_setting('max_logical_replication_workers')::int
        - (SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL)::int,
    (SELECT oid::text FROM pg_database WHERE datname = current_database())
"""
SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"
MAY_REPLICATE = """
SELECT rolsuper OR rolreplication OR EXISTS (
    SELECT FROM pg_roles AS hosted
    WHERE hosted.rolname IN ('rds_replication', 'azure_pg_admin', 'cloudsqlsuperuser')
      AND pg_has_role(current_user, hosted.oid, 'MEMBER'))
FROM pg_roles WHERE rolname = current_user
"""
HAS_SCHEMA = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
HAS_TABLE = "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text)) IS NOT NULL"
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
MAKE_SLOT = """
SELECT pg_create_logical_replication_slot(pubname, 'pgoutput') FROM pg_publication
WHERE pubname = %(token)s
  AND NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %(token)s)
"""
HAS_SLOT = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s)"
# Of moves that are over, in this database.
DEAD_SLOTS = """
SELECT slot_name, active_pid FROM pg_replication_slots
WHERE database = current_database() AND starts_with(slot_name, %s)
  AND NOT EXISTS (SELECT FROM pg_publication WHERE pubname = slot_name)
"""
# Flushed, so that the subscriber is sent everything before it.
MARK = "SELECT pg_logical_emit_message(true, 'inturn move', '') - '0/0'::pg_lsn"
CONFIRMED = """
SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = %s
"""
# Streaming standbys that do not have everything up to a position.
STANDBYS_BEHIND = """
SELECT count(*) FROM pg_stat_replication
WHERE state = 'streaming' AND flush_lsn - '0/0'::pg_lsn < %s
  AND NOT EXISTS (SELECT FROM pg_replication_slots
      WHERE active_pid = pg_stat_replication.pid AND slot_type = 'logical')
"""
WAL_END = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
SEQUENCES = """
SELECT relname, seqincrement FROM pg_sequence
JOIN pg_class ON pg_class.oid = seqrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s
"""
BLOCKERS = """
SELECT DISTINCT pid, coalesce(nullif(application_name, ''), usename) FROM pg_locks
JOIN pg_stat_activity USING (pid)
JOIN pg_class ON pg_class.oid = relation
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND pid <> pg_backend_pid() AND granted AND xact_start < now() - interval '1 s'
  AND mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareLock', 'ExclusiveLock')
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

# On the new server.
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
COPIED = """
SELECT count(*) FILTER (WHERE srsubstate = 'r'), count(*),
    (SELECT coalesce(sum(bytes_processed), 0) FROM pg_stat_progress_copy
     WHERE command = 'COPY FROM' AND datname = current_database())::bigint,
    EXISTS (SELECT FROM pg_stat_subscription WHERE subname = %(token)s AND pid IS NOT NULL)
FROM pg_subscription_rel JOIN pg_subscription ON pg_subscription.oid = srsubid
WHERE subname = %(token)s
"""
HAS_SUBSCRIPTION = "SELECT EXISTS (SELECT FROM pg_subscription WHERE subname = %s)"
# If the old home is lost before it was closed, nobody has carried the sequences.
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
        ((v_jobs >> 10) + 1000) * 1024 + v_cell);
    EXECUTE format('ALTER SEQUENCE batches_id_seq INCREMENT BY 1024 RESTART %s',
        ((v_batches >> 10) + 1000) * 1024 + v_cell);
    PERFORM setval('ends_seq_seq',
        (SELECT greatest((SELECT max(seq) FROM ends), last_value) + 1000 FROM ends_seq_seq));
    PERFORM setval(sequence::regclass, needed + 1000) FROM sequences_behind()
    WHERE sequence IN ('fences', 'lane_audit_id_seq');
END $$
"""
OPEN = """
UPDATE cell SET home = cell_home();
SELECT setval('fences', next_epoch(last_value, coalesce(timeline(), (last_value >> 40) & 65535)))
FROM fences;
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
    EXISTS (
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
