"""SQLAlchemy models of the tables, for your own queries and for `alembic check`.

The migrations define the tables; this module only describes them.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    Double,
    Identity,
    Index,
    Integer,
    Interval,
    Table,
    Text,
    Uuid,
    desc,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from inturn import sql
from inturn.schema.column_types import (
    batch_event,
    failure_policy,
    job_status,
    key,
    lane_state,
    moment,
    parent_policy,
    pause_kind,
    retry_policy,
)
from inturn.schema.column_types import metadata as metadata
from inturn.schema.history_tables import finished_jobs as finished_jobs
from inturn.schema.history_tables import rollup_days as rollup_days
from inturn.schema.history_tables import rollups as rollups
from inturn.schema.history_tables import uncounted_ends as uncounted_ends
from inturn.states import ENDED

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("claim_id", Uuid),
    Column("fence", BigInteger),
    Column("worker_id", Uuid),
    Column("scheduled_at", moment),
    Column("delayed_at", moment),
    Column("created_at", moment, nullable=False),
    Column("started_at", moment),
    Column("status", job_status, nullable=False),
    Column("on_retry", retry_policy, nullable=False, server_default="hold"),
    Column("on_failure", failure_policy, nullable=False, server_default="continue"),
    Column("abort", Boolean, nullable=False, server_default="false"),
    Column("has_waiters", Boolean, nullable=False, server_default="false"),
    Column("has_children", Boolean),
    Column("has_parents", Boolean),
    Column("timeout", Interval),
    Column("expires_at", moment),
    Column("was_attempted", Boolean, nullable=False, server_default="false"),
    Column("lost_queueing_lock", Boolean, nullable=False, server_default="false"),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("queue", key, nullable=False, server_default="default"),
    Column("task", key, nullable=False),
    Column("lock", key),
    Column("queueing_lock", key),
    Column("args", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("errors", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("limit_key", key),
    Column("group_key", key),
    Column("batch_id", BigInteger),
    Column("locks", ARRAY(key)),
    Column("shared", ARRAY(key)),
    Column("keeps_lanes", Boolean),
    Column("headers", JSONB),
)
_order: tuple[Any, ...] = (desc("priority"), jobs.c.id)
_free = text("status = 'todo' AND lock IS NULL AND group_key IS NULL")
_heads = text("status = 'todo' AND lock IS NOT NULL AND group_key IS NULL")
_in_lane = "lock IS NOT NULL AND keeps_lanes IS NULL"
_waits = "status IN ('todo', 'blocked', 'limited', 'paused')"
Index("jobs_free", jobs.c.queue, *_order, postgresql_where=_free)
Index("jobs_heads", jobs.c.queue, *_order, postgresql_where=_heads)
_is_free = text("((lock IS NULL)::integer)")
_turns: tuple[Any, ...] = (jobs.c.queue, _is_free, desc("priority"), jobs.c.group_key, jobs.c.id)
_grouped = text("group_key IS NOT NULL AND status = 'todo'")
Index("jobs_turns", *_turns, postgresql_where=_grouped)
Index("jobs_lane", jobs.c.lock, *_order, postgresql_where=text(f"{_in_lane} AND {_waits}"))
_back = "(fence IS NOT NULL OR scheduled_at IS NOT NULL OR delayed_at IS NOT NULL)"
Index(
    "jobs_back", jobs.c.lock, *_order, postgresql_where=text(f"{_in_lane} AND {_back} AND {_waits}")
)
_kept = desc(text("(was_attempted AND on_retry = 'hold' AND lock IS NOT NULL)"))
# As PostgreSQL returns it, for Alembic to compare.
_gate = text("""
CASE
    WHEN status = 'paused' THEN 'task:' || task
    ELSE 'limit:' || limit_key
END""")
_gated: tuple[Any, ...] = (_gate, jobs.c.queue, _kept, *_order)
Index(
    "jobs_gated",
    *_gated,
    postgresql_include=["status", "task", "limit_key"],
    postgresql_where=text("status IN ('limited', 'paused')"),
)
Index("jobs_running", jobs.c.worker_id, postgresql_where=text("status = 'doing'"))
_later = text("status IN ('scheduled', 'pending')")
Index("jobs_due", jobs.c.status, jobs.c.scheduled_at, postgresql_where=_later)
_delayed = text("status = 'scheduled' AND delayed_at IS NOT NULL")
Index("jobs_delayed", jobs.c.delayed_at, postgresql_where=_delayed)
_expiring = text("expires_at IS NOT NULL AND status <> 'doing' AND NOT was_attempted")
Index("jobs_expiring", jobs.c.expires_at, postgresql_where=_expiring)
_queueing = text("queueing_lock IS NOT NULL AND status <> 'doing' AND NOT lost_queueing_lock")
_batch = text("batch_id IS NOT NULL")
Index("jobs_batch", jobs.c.batch_id, jobs.c.id, postgresql_where=_batch)
Index("jobs_queueing", jobs.c.queueing_lock, unique=True, postgresql_where=_queueing)
Index("jobs_keeping", jobs.c.id, postgresql_where=text("keeps_lanes"))

waits = Table(
    "waits",
    metadata,
    Column("lock", key, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("id", BigInteger, nullable=False),
)
Index("waits_lane", waits.c.lock, desc("priority"), waits.c.id, unique=True)

lanes = Table(
    "lanes",
    metadata,
    Column("lock", key, primary_key=True),
    Column("worker_id", Uuid),
    Column("job_id", BigInteger),
    Column("since", moment, nullable=False),
    Column("stopped", lane_state),
    Column("stopped_at", moment),
    Column("stopped_until", moment),
    Column("look_at", moment),
    Column("failed_job_id", BigInteger),
    Column("stopped_by", Text),
    Column("stop_reason", Text),
    Column("readers", Integer),
    Column(
        "state", lane_state, Computed("CASE … END", persisted=True)
    ),  # see the migration for the expression
)
_due = "coalesce(look_at, stopped_until)"
Index("lanes_resume", text(_due), postgresql_where=text(f"{_due} IS NOT NULL"), _table=lanes)
_stopped = text("stopped IS NOT NULL")
Index("lanes_stopped", lanes.c.stopped, lanes.c.stopped_at, postgresql_where=_stopped)

edges = Table(
    "edges",
    metadata,
    Column("parent", BigInteger, primary_key=True, autoincrement=False),
    Column("child", BigInteger, primary_key=True, autoincrement=False),
    Column("on_parent", parent_policy, nullable=False),
    Column("failed", Boolean, nullable=False, server_default="false"),
    Column("horizon", BigInteger),
)
Index("edges_child", edges.c.child)

ends = Table(
    "ends",
    metadata,
    Column("seq", BigInteger, Identity(always=True), primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("told_at", moment, nullable=False),
    Column("look_at", moment, nullable=False),
    Column("status", job_status, nullable=False),
)
Index("ends_job", ends.c.job_id, ends.c.seq)
Index("ends_due", ends.c.look_at, ends.c.seq)

batches = Table(
    "batches",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False),
    Column("callback_id", BigInteger),
    Column("opened_at", moment, nullable=False),
    Column("closed_at", moment),
    Column("ended_at", moment),
    *[Column(name, BigInteger, nullable=False, server_default="0") for name in ("total", *ENDED)],
)
Index("batches_ended", batches.c.ended_at, postgresql_where=text("ended_at IS NOT NULL"))

batch_gates = Table(
    "batch_gates",
    metadata,
    Column("batch_id", BigInteger, primary_key=True, autoincrement=False),
)

batch_events = Table(
    "batch_events",
    metadata,
    Column("batch_id", BigInteger, primary_key=True, autoincrement=False),
    Column("xact", BigInteger, primary_key=True, autoincrement=False),
    Column("event", batch_event, primary_key=True),
    Column("jobs", BigInteger, nullable=False),
    Column("at", moment, nullable=False),
    Column("due_at", moment, nullable=False, server_default="-infinity"),
)
Index("batch_events_due", batch_events.c.due_at)

limits = Table(
    "limits",
    metadata,
    Column("pattern", key, primary_key=True),
    Column("slots", Integer),
    Column("rate", Integer),
    Column("period", Interval),
    Column("burst", Integer),
)

gates = Table(
    "gates",
    metadata,
    Column("key", key, primary_key=True),
    Column("used", Integer, nullable=False, server_default="0"),
    Column("tokens", Double),
    Column("refilled_at", moment),
    Column("look_at", moment),
)
_look = text("look_at IS NOT NULL")
Index("gates_look", gates.c.look_at, postgresql_where=_look)

gate_looks = Table(
    "gate_looks",
    metadata,
    Column("key", key, primary_key=True),
    Column("id", Uuid, primary_key=True, server_default=text("gen_random_uuid()")),
    Column("left_at", moment, nullable=False),
)

groups = Table(
    "groups",
    metadata,
    Column("pattern", key, primary_key=True),
    Column("weight", Integer, nullable=False),
)

pauses = Table(
    "pauses",
    metadata,
    Column("kind", pause_kind, primary_key=True),
    Column("name", key, primary_key=True),
    Column("paused_at", moment, nullable=False),
    Column("until", moment),
    Column("paused_by", Text, nullable=False),
    Column("reason", Text),
)

lane_audit = Table(
    "lane_audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", moment, nullable=False),
    Column("who", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("lock", key),
    Column("jobs", BigInteger, nullable=False),
    Column("reason", Text),
    Column("job_id", BigInteger),
    Column("batch_id", BigInteger),
)
Index("lane_audit_lock", lane_audit.c.lock, lane_audit.c.id)
_job = text("job_id IS NOT NULL")
Index("lane_audit_job", lane_audit.c.job_id, lane_audit.c.id, postgresql_where=_job)

workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hostname", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("queues", ARRAY(Text)),
    Column("tasks", ARRAY(Text)),
    Column("schedules", ARRAY(Text)),
    Column("concurrency", Integer, nullable=False),
    Column("started_at", moment, nullable=False),
    Column("heartbeat_at", moment, nullable=False),
    Column("loop_turned_at", moment, nullable=False),
    Column("awake", Boolean, nullable=False, server_default="false"),
    Column("listens", Boolean),
    Column("trouble", Text),
    Column("heartbeat_every", Interval),
    Column("clock_ahead", Interval),
    Column("keep_history", Double),
)

schedules = Table(
    "schedules",
    metadata,
    Column("task", key, primary_key=True),
    Column("periodic_id", key, primary_key=True),
    Column("cron", Text, nullable=False),
    Column("tz", Text, nullable=False),
    Column("since", moment, nullable=False),
    Column("last_instant", moment),
    Column("last_job_id", BigInteger),
)

progress = Table(
    "progress",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("fence", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("total", BigInteger),
    Column("text", Text),
    Column("updated_at", moment, nullable=False),
)

fences_seen = Table(
    "fences_seen",
    metadata,
    Column("resource", key, primary_key=True),
    Column("token", BigInteger, nullable=False),
)

applied_code = Table(
    "applied_code",
    metadata,
    Column("checksum", Text, primary_key=True),
    Column("applied_at", moment, nullable=False),
)

granted_roles = Table(
    "granted_roles",
    metadata,
    Column("role", key, primary_key=True),
    Column("kind", Text, nullable=False),
)

cell = Table(
    "cell",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("of", Integer, nullable=False),
    Column("map", Uuid, nullable=False),
    Column("home", Text, nullable=False),
)

for _table in metadata.tables.values():
    _table.comment = sql.find_comments("TABLE").get(_table.name)
