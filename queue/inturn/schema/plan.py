"""What a migration or downgrade would do, determined without changing or locking anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from alembic.script import ScriptDirectory

from inturn import sql
from inturn.database import drive
from inturn.errors import BadArgument, SchemaMismatch
from inturn.operations import Operation, Statement, ask
from inturn.operations.engine import maintenance
from inturn.operations.engine.moving import SCHEMA_OWNER
from inturn.schema.migrate import plain_errors

# Your views that read one of ours or call one of our functions, and views that read those.
DEPENDENT_VIEWS = """
WITH RECURSIVE ours AS (
    SELECT oid, 'pg_class'::regclass AS catalog FROM pg_class
    WHERE relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND relkind = 'v'
    UNION ALL
    SELECT oid, 'pg_proc'::regclass FROM pg_proc
    WHERE pronamespace = to_regnamespace(quote_ident(%(schema)s))
), dependent AS (
    SELECT oid, catalog FROM ours
    UNION
    SELECT rule.ev_class, 'pg_class'::regclass
    FROM dependent
    JOIN pg_depend AS link ON link.refobjid = dependent.oid AND link.refclassid = dependent.catalog
    JOIN pg_rewrite AS rule ON rule.oid = link.objid AND link.classid = 'pg_rewrite'::regclass
)
SELECT DISTINCT oid::regclass::text FROM dependent JOIN pg_class USING (oid)
WHERE relnamespace <> to_regnamespace(quote_ident(%(schema)s)) ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What would be done, in this order. No steps means nothing."""

    before: str | None  # the revision of the tables, None if there are none
    after: str
    steps: tuple[str, ...]
    dropped: tuple[str, ...] = ()  # your views that would be dropped too


def plan_migration(dsn: str, schema: str = sql.SCHEMA) -> MigrationPlan:
    """Return what `migrate` would do."""
    with _reading(dsn) as connection:
        before, served = drive.run(_look(schema), connection, schema)
        if before is not None and before > sql.revision() and sql.checksum() in served:
            return MigrationPlan(before, before, ())
        maintenance.check_is_known(schema, before)
        steps = []
        if connection.execute(SCHEMA_OWNER, [schema]).fetchone() is None:
            steps.append(f"create the schema {schema}")
    folder = ScriptDirectory(str(sql.find_folder("migrations")))
    # Alembic walks from newest to oldest.
    walked = [] if before == sql.revision() else folder.iterate_revisions("head", before or "base")
    for each in reversed(list(walked)):
        steps.append(f"run {each.revision}.up.sql: {_title(each.doc)}")
    if sql.checksum() not in served:
        steps.append(f"create or replace the functions and views ({len(list(sql.code()))} scripts)")
    return MigrationPlan(before, sql.revision(), tuple(steps))


def plan_downgrade(dsn: str, to: str | None = None, schema: str = sql.SCHEMA) -> MigrationPlan:
    """Return what `downgrade` would do to reach the revision `to`, by default the previous one.

    A downgrade below the first revision deletes all tables, including the jobs. A downgrade to the
    current revision only drops the functions and views.
    """
    with _reading(dsn) as connection:
        before, served = drive.run(_look(schema), connection, schema)
        if before is None:
            raise SchemaMismatch(f"The database has no tables of inturn in the schema {schema!r}.")
        maintenance.check_is_known(schema, before)
        views = connection.execute(DEPENDENT_VIEWS, {"schema": schema}).fetchall()
    folder = ScriptDirectory(str(sql.find_folder("migrations")))
    known = {each.revision: each for each in folder.walk_revisions()}
    after = to or str(known[before].down_revision or before)
    if after not in known or after > before:
        names = ", ".join(sorted(name for name in known if name <= before))
        raise BadArgument(
            "to", f"{after!r} is not a revision to go back to. Choose one of: {names}"
        )
    undone = sorted((name for name in known if after < name <= before), reverse=True)
    steps = []
    if served:
        steps.append("drop the functions and views, so that nothing uses the queue")
    steps += [f"run {name}.down.sql, undoing: {_title(known[name].doc)}" for name in undone]
    return MigrationPlan(before, after, tuple(steps), tuple(str(name) for (name,) in views))


@contextmanager
def _reading(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with plain_errors(), psycopg.connect(dsn) as connection:
        connection.read_only = True
        yield connection


def _look(schema: str) -> Operation[tuple[str | None, list[str]]]:
    """Return the revision, and the checksums of the versions that the functions serve."""
    if not (yield from ask(bool, maintenance.HAS_VERSION, schema)):
        return None, []
    ((revision, served),) = yield Statement(maintenance.APPLIED)
    return revision, served


def _title(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]
