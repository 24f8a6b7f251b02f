"""Connect to the queue's database, one connection at a time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from inturn.database import caller_connection, drive
from inturn.database.deadlines import Terms, with_deadlines
from inturn.database.dsn import find_dsn, refuse_search_path
from inturn.database.pools import AsyncPool, Pool, PoolUse
from inturn.database.session import AsyncSession, Session
from inturn.errors import ConfigurationError, InturnError
from inturn.operations import Operation
from inturn.sql import SCHEMA
from inturn.values import JsonDumps, JsonLoads

if TYPE_CHECKING:
    from inturn.tasks.lanes import JobLanes
    from inturn.tasks.task import Schedule

T = TypeVar("T")
# The statements of these roles are inturn's own, and short.
WORKING = (
    "worker", "heartbeat", "maintenance", "task", "schedule", "listener", "results", "health",
    "metrics",
)  # fmt: skip
WORKING_SILENCE = 10.0  # seconds
# Other defaults, set for a database or a role, would break us.
RELIED_ON = {
    "default_transaction_isolation": "read committed",  # the SQL functions rely on it
    "client_encoding": "UTF8",
    "DateStyle": "ISO",  # the driver reads no other
    "IntervalStyle": "postgres",
    "array_nulls": "on",
    "restrict_nonsystem_relation_kind": "",  # or no view could be read
}
# A working session may be idle, and waits for its calls while the server is working on them.
UNLIMITED = {"statement_timeout": "0", "idle_session_timeout": "0", "transaction_timeout": "0"}
CAUTIOUS = ("worker", "maintenance")  # these roles must not wait for held locks
LOCK_TIMEOUT = 0.1  # seconds
LONGEST_NAME = 63  # bytes; PostgreSQL cuts off the rest


class Connector:
    """Where the queue lives, and how to reach it. Usually a `PsycopgConnector`.

    def show(connector: BaseConnector) -> None:
        print(connector.schema)

    show(app.connector)

    Its methods are those of `PsycopgConnector`. Other connectors have no pools: each call uses its
    own connection, and `open` does nothing.
    """

    _role = "command"  # of the connections of `run` and `run_async`
    number: int | None = None  # of its cell
    moves = 0  # how often its cell has moved to another server

    def __init__(
        self,
        dsn: str | None = None,
        *,
        conninfo: str | None = None,
        schema: str = SCHEMA,
        prepare_threshold: int | None = 5,
        listen_dsn: str | None = None,
        timeout: float = 5.0,
        call_timeout: float | None = 30.0,
        json_dumps: JsonDumps | None = None,
        json_loads: JsonLoads | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if dsn and conninfo:
            raise ConfigurationError(
                "The connector was given both dsn and conninfo, which mean the same. Pass only one."
            )
        if not 0 < timeout < inf:
            raise ConfigurationError(
                f"timeout={timeout!r} is not a valid number of seconds. Pass a number greater than "
                "0."
            )
        # Statements have the name beside placeholders such as %s.
        if "%" in schema or not 0 < len(schema.encode(errors="replace")) <= LONGEST_NAME:
            raise ConfigurationError(
                f"schema={schema!r} cannot be the queue's schema. Choose a name without '%', of at "
                f"most {LONGEST_NAME} bytes."
            )
        self._dsn = dsn or conninfo
        self.schema = schema
        self.json_dumps = json_dumps
        self.json_loads = json_loads
        self._options = {**(kwargs or {}), **options}
        self._listen_dsn = listen_dsn or os.environ.get("INTURN_LISTEN_DSN")
        self._prepare_threshold = prepare_threshold
        self._session: dict[str, Any] = {"autocommit": True, "prepare_threshold": prepare_threshold}
        self._timeout = timeout
        self._call_timeout = call_timeout

    @property
    def dsn(self) -> str:
        """Return the address in libpq's form, resolved each time: the environment may change."""
        try:
            dsn = make_conninfo(find_dsn(self._dsn, options=self._options), **self._options)
            refuse_search_path(dsn, self.schema)
            return dsn
        except psycopg.ProgrammingError as error:
            raise ConfigurationError(
                "The connector was given an option that libpq does not know. Remove it: "
                f"{str(error).strip()}"
            ) from None

    @property
    def homes(self) -> Sequence[Connector]:
        """The connectors of all cells, by number. Without cells, this one; see docs/cells.md."""
        return (self,)

    def find_home(self, cell: int | str) -> Connector:
        """Return the connector of a cell, by its number or a cell key."""
        return self

    async def _explain_call_async(self, error: InturnError, session: AsyncSession) -> InturnError:
        """Return the error of a call on a session, or a more exact one."""
        return error

    def check_lock(self, lock: str | JobLanes | None) -> None:
        """Raise BadArgument if jobs with this lock, or these, belong elsewhere."""

    def check_cell(self) -> None:
        """Raise WrongCell if the database should be a cell, and is not that one."""

    def has_schedule(self, schedule: Schedule) -> bool:
        """Return True if the jobs of a schedule are deferred here."""
        return True

    def serve(self, control: Callable[..., T], *more: Any) -> T:
        """Return a part of the app, such as `app.lanes`, that uses this connector."""
        return control(self, *more)

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> Connector:
        """Return a connector to another database or schema, with this one's settings."""
        raise NotImplementedError

    def run(self, operation: Operation[T], connection: object = None) -> T:
        """Run one of `inturn.operations`, on the caller's connection if given."""
        if connection is not None:
            return drive.run(operation, caller_connection.find_connection(connection), self.schema)
        with closing(self.connect(self._role)) as own:
            return drive.run(operation, own, self.schema)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        """Like `run`, in an event loop."""
        if connection is not None:
            given = await caller_connection.find_connection_async(connection)
            return await drive.run_async(operation, given, self.schema)
        async with await self.connect_async(self._role) as own:
            return await drive.run_async(operation, own, self.schema)

    def connect(
        self, role: str = "command", *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> Session:
        """Open a separate connection that commits each statement.

        On the server its name is `inturn role`.

        `lock_timeout` is how many seconds a statement may wait for a lock: 0 means forever, None
        the role's default.
        """
        terms = self._terms(role, to_listen, lock_timeout)
        with drive.translate_errors(connecting=True):
            return Session.connect(
                terms.address, terms=terms, application_name=f"inturn {role}", **self._session
            )

    async def connect_async(
        self, role: str, *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> AsyncSession:
        """Like `connect`, in an event loop."""
        terms = self._terms(role, to_listen, lock_timeout)
        name = f"inturn {role}"
        with drive.translate_errors(connecting=True):
            return await AsyncSession.connect(
                terms.address, terms=terms, application_name=name, **self._session
            )

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection for one of the caller's transactions."""
        with self.connect("task") as own:
            yield own

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Like `lend`, in an event loop."""
        async with await self.connect_async("task") as own:
            yield own

    def open(self, pool: Pool | None = None) -> None:
        """Make `run` possible. `App.open` calls it."""

    def close(self) -> None:
        """Undo `open`."""

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        """Make `run_async` possible. `App.open_async` calls it."""

    async def open_async_later(self) -> None:
        """Make `run_async` possible, but connect only on its first call."""

    async def close_async(self) -> None:
        """Undo `open_async`, or `open_async_later`."""

    @property
    def is_open_async(self) -> bool:
        """True if `run_async` can be called."""
        return True

    def count_pooled(self) -> PoolUse:
        """Return how many connections the pools have, for metrics. Some connectors have none."""
        return PoolUse()

    def _settings_at(self, dsn: str | None, schema: str | None) -> dict[str, Any]:
        return {
            "dsn": dsn or self.dsn,
            "schema": schema or self.schema,
            "prepare_threshold": self._prepare_threshold,
            "listen_dsn": None if dsn else self._listen_dsn,
            "timeout": self._timeout,
            "call_timeout": self._call_timeout,
            "json_dumps": self.json_dumps,
            "json_loads": self.json_loads,
        }

    def _terms(
        self, role: str, to_listen: bool = False, lock_timeout: float | None = None
    ) -> Terms:
        address = find_dsn(self._listen_dsn) if to_listen and self._listen_dsn else self.dsn
        settings = RELIED_ON | (UNLIMITED if role in WORKING and role != "task" else {})
        if lock_timeout is None and role in CAUTIOUS:
            lock_timeout = LOCK_TIMEOUT
        if lock_timeout is not None:
            settings["lock_timeout"] = f"{round(1000 * lock_timeout)}ms"
        if role in CAUTIOUS:
            # Keeps an abandoned call from committing much later.
            settings["client_connection_check_interval"] = "1s"
        limits = {**dict.fromkeys(WORKING, WORKING_SILENCE), "pool": self._call_timeout}
        return Terms(
            with_deadlines(address, self._timeout),
            ask_after=self._timeout / 2,
            give_up_after=limits.get(role),
            settle_within=self._timeout,
            settings=settings,
        )
