"""Brings a database's schema to the state that this version needs.

Tables, types and indexes are Alembic revisions, each a file of SQL. Functions and views are code:
they are replaced as a whole after the revisions, in the same transaction, and their checksum is
recorded. Access is then revoked from every role that was not granted it (sql/privileges). If two
migrations start at once, the second waits for the first. A migration takes effect as a whole or not
at all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg.sql import SQL, Identifier

from inturn import sql
from inturn.database import drive
from inturn.database.conditions import first_line
from inturn.errors import ConfigurationError, ConnectorException, MissingExtra
from inturn.operations.engine.citus import DISTRIBUTED, is_distributed
from inturn.operations.engine.maintenance import DAYS_AHEAD, check_is_known
from inturn.operations.engine.moving import AWAIT_MIGRATION, IS_MOVING, MOVED, SCHEMA_OWNER

try:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from sqlalchemy import Connection, create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool
except ModuleNotFoundError:
    raise MissingExtra("Creating or updating the queue's schema", "migrate") from None

Raw = psycopg.Connection[tuple[Any, ...]]
VERSION_TABLE = "schema_version"
OLDEST = 14  # version of PostgreSQL

DROP_CODE = """
DO $$
DECLARE
    v_statement text;
BEGIN
    -- An array, because the names of views that others take with them would be gone later.
    FOREACH v_statement IN ARRAY ARRAY(
        SELECT format('DROP VIEW IF EXISTS %s CASCADE', oid::regclass)
        FROM pg_class
        WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'v'
          AND pg_has_role(relowner, 'USAGE')
        UNION ALL
        SELECT format('DROP FUNCTION IF EXISTS %s CASCADE', oid::regprocedure)
        FROM pg_proc
        WHERE pronamespace = quote_ident(current_schema())::regnamespace
          AND pg_has_role(proowner, 'USAGE')
    ) LOOP
        EXECUTE v_statement;
    END LOOP;
END $$
"""


# The owner of the existing objects, if we may act as it. New objects then belong to the same role,
# even if another one migrates.
OWNER = """
SELECT rolname
FROM pg_namespace
LEFT JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = 'jobs'
JOIN pg_roles ON pg_roles.oid = coalesce(relowner, nspowner)
WHERE nspname = %s AND rolname <> current_user
  AND pg_has_role(
      rolname,
      CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """What one call of `migrate` changed. `before` is None if the database had no tables."""

    before: str | None
    after: str
    scripts: int  # functions and views replaced: all of them or none

    def __str__(self) -> str:
        tables = f"revision {self.after}"
        if self.before != self.after:
            tables = f"revision {self.before or 'none'} -> {self.after}"
        if self.scripts:
            return f"{tables}, {self.scripts} functions and views applied"
        return f"{tables}, up to date"


def migrate(
    dsn: str, schema: str = sql.SCHEMA, finish: Callable[[Raw], None] | None = None
) -> Migration:
    """Apply missing revisions and changed functions and views, if any.

    Do nothing if a later version has migrated the schema in a way that still serves this one.
    `finish` is called in the transaction of the migration. Only a move gives it, for its copy.
    """
    with _session(dsn, schema, create=True, is_mover=finish is not None) as connection:
        done = _migrate(connection, schema)
        if finish is not None:
            finish(_raw(connection))
        return done


def _migrate(connection: Connection, schema: str) -> Migration:
    before, ours = _revision(connection), sql.revision()
    if before is not None and before > ours and _serves_us(connection):
        return Migration(before, before, 0)
    check_is_known(schema, before)
    command.upgrade(_config(connection, schema), "head")
    return Migration(before, ours, _apply_code(connection))


def prepare_history(dsn: str, schema: str = sql.SCHEMA) -> None:
    """Create the partitions of the next days, so that the first worker need not.

    Do nothing if the history is in use. A worker then retries.
    """
    # Not in `migrate`'s transaction, which would keep the history locked for longer.
    with _session(dsn, schema, create=False) as connection:
        _raw(connection).execute("SELECT prepare_history(%s)", [DAYS_AHEAD])


def make_cell(dsn: str, schema: str, number: int, of: int, map: UUID) -> bool:
    """Make a migrated schema a cell. Return False if it is that cell already."""
    with _session(dsn, schema, create=False) as connection:
        made = _raw(connection).execute("SELECT make_cell(%s, %s, %s)", [number, of, map])
        return made.fetchone() == (True,)


def adopt_cell(dsn: str, schema: str) -> None:
    """Make this database the home of its cell, after pg_upgrade or a restore."""
    with _session(dsn, schema, create=False) as connection:
        _raw(connection).execute("UPDATE cell SET home = cell_home()")


def downgrade(dsn: str, revision: str, schema: str = sql.SCHEMA) -> None:
    """Go back to an older revision, or only drop the functions and views if it is the current one.

    The functions and views are dropped first, since they belong to the newest tables. The earlier
    version's `migrate` then creates its own.
    """
    with _session(dsn, schema, create=False) as connection:
        check_is_known(schema, _revision(connection))
        _raw(connection).execute(DROP_CODE)
        _raw(connection).execute("DELETE FROM applied_code")
        command.downgrade(_config(connection, schema), revision)


def grant(
    dsn: str,
    schema: str = sql.SCHEMA,
    prefix: str | None = None,
    members: Mapping[str, Sequence[str]] | None = None,
) -> tuple[str, list[str]]:
    """Create the missing roles, make one of them the owner, and grant their privileges.

    Return the owner, and what the server warns of. See `sql.grants`.
    """
    warnings: list[str] = []
    with plain_errors(), psycopg.connect(dsn, autocommit=True) as connection:
        connection.add_notice_handler(
            lambda told: warnings.append(f"{told.message_primary}. {told.message_detail}")
        )
        connection.execute(sql.grants(schema, prefix, members).encode())
        ((owner,),) = connection.execute(SCHEMA_OWNER, [schema]).fetchall()
    return str(owner), warnings


def apply_script(connection: Connection, revision: str, direction: str) -> None:
    """Run `NNNN.up.sql` or `NNNN.down.sql` of a revision."""
    file = sql.find_folder("migrations") / "versions" / f"{revision}.{direction}.sql"
    _raw(connection).execute(file.read_bytes())


@contextmanager
def _session(
    dsn: str, schema: str, *, create: bool, is_mover: bool = False
) -> Iterator[Connection]:
    """Open an unpooled connection and a transaction, with the schema locked and on the path."""
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool
    )
    with plain_errors(), engine.connect() as connection, connection.begin():
        raw = _raw(connection)
        _refuse_old_server(raw)
        # Lock before reading the current revision. A second deployment waits here and then finds
        # nothing to do.
        raw.execute(AWAIT_MIGRATION, [schema])
        # Never wait long for a locked table: everything else would wait behind us.
        raw.execute("SET LOCAL lock_timeout = '10s'")
        raw.execute("SET LOCAL client_min_messages = warning")
        _keep_citus_out(raw, schema)
        if not is_mover:
            _refuse_moving(raw, schema)
        # IF NOT EXISTS would need the privilege to create schemas even if it exists.
        if create and raw.execute(SCHEMA_OWNER, [schema]).fetchone() is None:
            raw.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        for (owner,) in raw.execute(OWNER, [schema]).fetchall():
            raw.execute(SQL("SET LOCAL ROLE {}").format(Identifier(str(owner))))
        # pg_temp last and by name. Otherwise a temporary table could shadow one of ours inside a
        # function.
        raw.execute(SQL("SET LOCAL search_path = {}, pg_temp").format(Identifier(schema)))
        # Otherwise we would create temporary objects.
        if raw.execute("SELECT current_schema()").fetchone() != (schema,):
            raise pg.InsufficientPrivilege(
                f"the schema {schema!r} does not exist, or permission is denied"
            )
        yield connection


def _refuse_old_server(raw: Raw) -> None:
    if raw.info.server_version < OLDEST * 10_000:
        raise ConfigurationError(
            f"inturn needs PostgreSQL {OLDEST} or later, and this server is "
            f"{raw.info.parameter_status('server_version')}. Upgrade the server first"
        )


def _keep_citus_out(raw: Raw, schema: str) -> None:
    """Have Citus leave our tables alone, or raise ConfigurationError if it has distributed them."""
    raw.execute("SET LOCAL citus.enable_ddl_propagation = off")  # means nothing without Citus
    if drive.run(is_distributed(schema), raw, schema):
        raise ConfigurationError(DISTRIBUTED.format(schema=schema))


def _refuse_moving(raw: Raw, schema: str) -> None:
    """Raise ConfigurationError if the schema is a cell that is being moved, or was moved away."""
    moving = raw.execute(IS_MOVING, {"schema": schema, "moved": schema + MOVED}).fetchone()
    assert moving is not None
    if moving[0]:
        raise ConfigurationError(
            f"The cell in the schema {schema!r} is being moved. Finish that first, or end it: "
            "queue cells move"
        )
    if moving[1] is not None:
        raise ConfigurationError(
            f"The cell in the schema {schema!r} {moving[1]}. Name its new home in the map of cells"
        )


@contextmanager
def plain_errors() -> Iterator[None]:
    """Translate driver errors into ours, even if SQLAlchemy wrapped them."""
    try:
        with drive.translate_errors():
            try:
                yield
            except DBAPIError as error:
                raise error.orig or error from None
    except ConnectorException as error:
        match error.__cause__:
            case pg.LockNotAvailable():
                raise ConnectorException(
                    "Nothing was changed, because a long transaction has locked a table of the "
                    "queue. End it (see pg_stat_activity) and try again."
                ) from error
            case pg.InsufficientPrivilege() as refused:
                raise ConnectorException(
                    f"The database refused: {first_line(refused)}. Nothing was changed. "
                    "Try again as the owner of the schema, or as a member of the role that owns it"
                ) from error
        raise


def _config(connection: Connection, schema: str) -> Config:
    config = Config()
    folder = str(sql.find_folder("migrations")).replace("%", "%%")  # a % begins an interpolation
    config.set_main_option("script_location", folder)
    config.attributes.update(connection=connection, schema=schema, version_table=VERSION_TABLE)
    return config


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE}
    ).get_current_revision()


def _apply_code(connection: Connection) -> int:
    """Apply the functions and views unless they are current. Return how many scripts ran."""
    raw = _raw(connection)
    if _serves_us(connection):
        return 0
    # The functions call each other, and the files are in no particular order.
    raw.execute("SET LOCAL check_function_bodies = off")
    scripts = list(sql.code())
    for text in scripts:
        raw.execute(text.encode())
    raw.execute(sql.comments().encode())
    raw.execute("DELETE FROM applied_code")
    raw.execute("INSERT INTO applied_code SELECT unnest(%s::text[]), now()", [list(sql.served())])
    return len(scripts)


def _serves_us(connection: Connection) -> bool:
    found = _raw(connection).execute("SELECT checksum FROM applied_code").fetchall()
    return (sql.checksum(),) in found


def _raw(connection: Connection) -> Raw:
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    return raw
