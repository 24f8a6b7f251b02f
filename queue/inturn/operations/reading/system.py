"""The server, the tables and the audit, for the dashboard."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from inturn.operations import Operation, read, read_one

SERVER = """
SELECT (SELECT version_num FROM {schema}.schema_version), current_setting('server_version'),
       current_user::text, pg_notification_queue_usage()
"""
# The days of the history are one table for people. The counts are estimates of the server.
TABLES = """
SELECT coalesce(parent.relname, own.relname)::text AS name,
       sum(pg_total_relation_size(own.oid))::bigint AS bytes,
       sum(nullif(own.reltuples, -1))::bigint,
       coalesce(sum(pg_stat_get_dead_tuples(own.oid)), 0)::bigint,
       max(greatest(pg_stat_get_last_vacuum_time(own.oid),
           pg_stat_get_last_autovacuum_time(own.oid)))
FROM pg_class AS own
JOIN pg_namespace ON pg_namespace.oid = own.relnamespace
LEFT JOIN pg_inherits ON inhrelid = own.oid
LEFT JOIN pg_class AS parent ON parent.oid = inhparent
WHERE nspname = %s AND own.relkind = 'r'
GROUP BY name ORDER BY bytes DESC, name LIMIT %s
"""
CHANGES = """
SELECT id, at, who, operation, lock, jobs, reason, job_id, batch_id
FROM {schema}.list_changes(%s, %s)
"""


class ServerFacts(NamedTuple):
    """The server's own statistics, and the schema's version."""

    revision: str | None
    version: str
    role: str
    notify_usage: float  # of the notification queue; at 1 no transaction can send one


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table with its indexes. Row counts are estimates."""

    name: str
    bytes: int
    rows: int | None  # None: never estimated
    dead_rows: int
    vacuumed_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A row of lane_audit. `lock` names a lane, queue, task, limit or group."""

    id: int
    at: datetime
    who: str
    operation: str
    lock: str | None
    jobs: int
    reason: str | None
    job_id: int | None
    batch_id: int | None


def get_server_facts() -> Operation[ServerFacts]:
    return read_one(ServerFacts, SERVER)


def list_tables(schema: str, limit: int) -> Operation[list[TableSize]]:
    """Return the tables, largest first."""
    return read(TableSize, TABLES, schema, limit)


def list_changes(before: int, limit: int) -> Operation[list[RecordedChange]]:
    """Return people's changes, newest first: those with lower ids than `before`."""
    return read(RecordedChange, CHANGES, before, limit)
