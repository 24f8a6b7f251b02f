"""SQLAlchemy models of the tables of the rollup, the rights and the cell; see also `tables`."""

from sqlalchemy import BigInteger, Column, Date, Index, Integer, SmallInteger, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import ARRAY, OID

from inturn import sql
from inturn.schema.tables import job_status, key, metadata, moment
from inturn.states import ENDED

__all__ = ["cell", "granted_roles", "metadata", "rollup_days", "rollups", "uncounted_ends"]

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
