"""SQLAlchemy models of the tables of ended jobs and their rollup."""

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    Index,
    Integer,
    Interval,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, OID

from inturn.schema.column_types import (
    failure_policy,
    job_status,
    key,
    metadata,
    moment,
    retry_policy,
)
from inturn.states import ENDED

finished_jobs = Table(
    "finished_jobs",
    metadata,
    Column("id", BigInteger, nullable=False),
    Column("fence", BigInteger),
    Column("worker_id", Uuid),
    Column("scheduled_at", moment),
    Column("created_at", moment, nullable=False),
    Column("started_at", moment),
    Column("finished_at", moment, nullable=False),
    Column("status", job_status, nullable=False),
    Column("on_retry", retry_policy, nullable=False),
    Column("on_failure", failure_policy, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("queue", key, nullable=False),
    Column("task", Text, nullable=False),
    Column("lock", key),
    Column("queueing_lock", key),
    Column("args", JSONB, nullable=False),
    Column("errors", JSONB, nullable=False),
    Column("result", JSONB),
    Column("timeout", Interval),
    Column("expires_at", moment),
    Column("limit_key", key),
    Column("group_key", key),
    Column("batch_id", BigInteger),
    Column("locks", ARRAY(key)),
    Column("shared", ARRAY(key)),
    Column("headers", JSONB),
)
_in_batch = text("batch_id IS NOT NULL")
Index("finished_jobs_batch", *finished_jobs.c["batch_id", "id"], postgresql_where=_in_batch)
Index("finished_jobs_id", finished_jobs.c.id)
_failed = text("status = 'failed'")
Index("finished_jobs_failed", finished_jobs.c.finished_at, postgresql_where=_failed)

rollups = Table(
    "rollups",
    metadata,
    Column("minutes", SmallInteger, primary_key=True, autoincrement=False),
    Column("at", moment, primary_key=True),
    Column("queue", key, primary_key=True),
    Column("task", key, primary_key=True),
    *[Column(name, BigInteger, nullable=False) for name in ENDED],
    Column("waits", ARRAY(Integer), nullable=False),
    Column("runs", ARRAY(Integer), nullable=False),
)

rollup_days = Table(
    "rollup_days",
    metadata,
    Column("day", Date, primary_key=True),
    Column("file", OID, nullable=False),
    Column("due_at", moment),
    Column("counted_below", BigInteger, nullable=False, server_default="0"),
    Column("counted_at", moment),
    Column("counting_below", BigInteger),
    Column("closing_below", BigInteger),
    Column("begun_at", moment),
    Column("pages", BigInteger, nullable=False, server_default="0"),
    Column("next_page", BigInteger, nullable=False, server_default="0"),
)

uncounted_ends = Table(
    "uncounted_ends",
    metadata,
    Column("day", Date, nullable=False),
    Column("page", BigInteger, nullable=False),
    Column("xact", BigInteger, nullable=False),
    Column("queue", key, nullable=False),
    Column("task", Text, nullable=False),
    Column("status", job_status, nullable=False),
    Column("created_at", moment, nullable=False),
    Column("scheduled_at", moment),
    Column("started_at", moment),
    Column("finished_at", moment, nullable=False),
)
Index("uncounted_ends_place", *uncounted_ends.c["day", "page"])
