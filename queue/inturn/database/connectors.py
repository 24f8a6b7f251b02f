"""Connections: two pools for what is deferred, opened when first needed, and single ones for a worker.

A job deferred here without `connection=` is committed when the call returns.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from inturn.database import caller_connection, drive, pools
from inturn.database.deadlines import Terms, with_deadlines
from inturn.database.dsn import find_dsn
from inturn.database.pools import AsyncPool, Pool
from inturn.database.session import AsyncSession, Session
from inturn.errors import (
    AppNotOpen,
    ConfigurationError,
    DatabaseUnavailable,
    SyncConnectorConfigurationError,
)
from inturn.operations import Operation
from inturn.sql import SCHEMA

T = TypeVar("T")
SYNC_ONLY = (
    "SyncPsycopgConnector does nothing async: no defer_async, no open_async, no worker. "
    "Give the App a PsycopgConnector, which is sync as well."
)
NOT_OPEN = "The app is not open. Defer inside `with app.open():` or `async with app.open_async():`."
WORKING = (
    "worker",
    "heartbeat",
    "upkeep",
    "task",
    "schedule",
    "listener",
    "results",
)  # roles whose statements are ours, and short
WORKING_SILENCE = 10.0  # seconds
CAUTIOUS = ("worker", "upkeep")  # roles that must not wait for a lock that somebody holds
LOCK_TIMEOUT = 0.1  # seconds


class PsycopgConnector:
    """Where the queue lives: a DSN (default: INTURN_DSN, DATABASE_URL, or libpq's PG variables) and a schema.

    PsycopgConnector("postgresql://user@host/database", schema="jobs", max_size=20)

    `min_size` and `max_size` are of the pool that defers; further options, or `kwargs`, are libpq's: `sslmode="require"`.

    `timeout`: a call that gets no connection within so many seconds, or to which the server stops answering, raises
    DatabaseUnavailable. A statement may take longer than that: after half of the time the server is asked, over a second
    connection, whether it is still at work. `call_timeout` is the limit where it cannot know, behind a pooler; None: no
    limit. In `context.transaction()` your statements have no limit.

    Unless the address says otherwise, `connect_timeout` is `timeout`, and TCP notices a vanished peer after ten seconds
    (`keepalives…`, `tcp_user_timeout`).

    Behind a pooler in transaction mode `listen_dsn` (default: INTURN_LISTEN_DSN) leads past it, since it forgets who
    listens; without one, workers poll. A pooler that knows no prepared statements, like PgBouncer before 1.21, needs
    `prepare_threshold=None`.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        conninfo: str | None = None,
        schema: str = SCHEMA,
        min_size: int = 1,
        max_size: int = 10,
        prepare_threshold: int | None = 5,
        listen_dsn: str | None = None,
        timeout: float = 5.0,
        call_timeout: float | None = 30.0,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if dsn and conninfo:
            raise ConfigurationError(
                "Give the connector either a DSN or conninfo: they are two names for one thing."
            )
        if timeout <= 0:
            raise ConfigurationError(
                f"timeout={timeout!r} is not a number of seconds to wait for the database."
            )
        self._dsn = dsn or conninfo
        self.schema = schema
        self._options = {**(kwargs or {}), **options}
        self._listen_dsn = listen_dsn or os.environ.get("INTURN_LISTEN_DSN")
        self._prepare_threshold = prepare_threshold
        self._session: dict[str, Any] = {"autocommit": True, "prepare_threshold": prepare_threshold}
        self._timeout = timeout
        self._call_timeout = call_timeout
        self._sizes = (min_size, max_size)
        self._opens = 0  # how often it was opened and not closed
        self._opening = Lock()
        self._pool: Pool | None = None
        self._async_pool: AsyncPool | None = None
        self._lent: list[Pool | AsyncPool] = []  # pools of the caller's, who closes them

    @property
    def dsn(self) -> str:
        """What libpq is told, found anew each time: the environment may change."""
        try:
            return make_conninfo(find_dsn(self._dsn, options=self._options), **self._options)
        except psycopg.ProgrammingError as error:
            raise ConfigurationError(
                f"The connector has an option that libpq does not know: {error}".strip()
            ) from None

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> PsycopgConnector:
        """Another one that differs in these."""
        return PsycopgConnector(
            dsn or self.dsn,
            schema=schema or self.schema,
            min_size=self._sizes[0],
            max_size=self._sizes[1],
            prepare_threshold=self._prepare_threshold,
            listen_dsn=None if dsn else self._listen_dsn,
            timeout=self._timeout,
            call_timeout=self._call_timeout,
        )

    @property
    def is_open_async(self) -> bool:
        """Whether `run_async` can be called."""
        return self._async_pool is not None

    def run(self, operation: Operation[T], connection: object = None) -> T:
        """Run one of `inturn.operations` on the caller's connection, or on one of the pool."""
        if connection is not None:
            return drive.run(operation, caller_connection.find_connection(connection), self.schema)
        pool, again = self._sync_pool(), drive.Repeatable(operation)
        while True:
            own = pools.take(pool, self._timeout)
            try:
                # Not in a `with own`: that commits, and on our own connections nothing is left to commit.
                done = drive.run(again, own, self.schema)
                if not own.autocommit:
                    with drive.translate_errors():
                        own.commit()
                return done
            except DatabaseUnavailable as error:
                if error.connection_lost:
                    pools.distrust(pool, own, error.__cause__)
                if not again.may_repeat(error):
                    raise
            finally:
                pool.putconn(own)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        """Like `run`, in an event loop."""
        if connection is not None:
            return await drive.run_async(
                operation, await caller_connection.find_connection_async(connection), self.schema
            )
        pool, again = self._open_async_pool(), drive.Repeatable(operation)
        while True:
            own = await pools.take_async(pool, self._timeout)
            try:
                done = await drive.run_async(again, own, self.schema)
                if not own.autocommit:
                    with drive.translate_errors():
                        await own.commit()
                return done
            except DatabaseUnavailable as error:
                if error.connection_lost:
                    await pools.distrust_async(pool, own, error.__cause__)
                if not again.may_repeat(error):
                    raise
            finally:
                await pool.putconn(own)

    def connect(
        self, role: str = "command", *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> Session:
        """A connection of its own, outside the pools: committing each statement, called `inturn role` on the server.

        `lock_timeout`: seconds that a statement may wait for a lock; 0: as long as it takes. None: what the role needs.
        """
        terms = self._terms(role, self._address(to_listen), lock_timeout)
        with drive.translate_errors(connecting=True):
            return Session.connect(
                terms.address, terms=terms, application_name=f"inturn {role}", **self._session
            )

    async def connect_async(
        self, role: str, *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> AsyncSession:
        """Like `connect`, in an event loop."""
        terms = self._terms(role, self._address(to_listen), lock_timeout)
        name = f"inturn {role}"
        with drive.translate_errors(connecting=True):
            return await AsyncSession.connect(
                terms.address, terms=terms, application_name=name, **self._session
            )

    def _address(self, to_listen: bool = False) -> str:
        address = find_dsn(self._listen_dsn) if to_listen and self._listen_dsn else self.dsn
        return with_deadlines(address, self._timeout)

    def _terms(self, role: str, address: str, lock_timeout: float | None = None) -> Terms:
        settings = {
            "default_transaction_isolation": "read committed"
        }  # what the engine is made for
        if lock_timeout is None and role in CAUTIOUS:
            lock_timeout = LOCK_TIMEOUT
        if lock_timeout is not None:
            settings["lock_timeout"] = f"{round(1000 * lock_timeout)}ms"
        if role in CAUTIOUS:
            settings["client_connection_check_interval"] = (
                "1s"  # so that what we gave up does not commit much later
            )
        limits = {**dict.fromkeys(WORKING, WORKING_SILENCE), "pool": self._call_timeout}
        return Terms(
            address,
            ask_after=self._timeout / 2,
            give_up_after=limits.get(role),
            settle_within=self._timeout,
            settings=settings,
        )

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool, for a transaction of the caller's; DatabaseUnavailable if it gets lost meanwhile."""
        pool = self._sync_pool()
        own = pools.take(pool, self._timeout)
        try:
            with pools.lend(own), own:
                yield own
        finally:
            if own.closed:
                pools.distrust(pool, own)
            pool.putconn(own)

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection of the pool, for a transaction of the caller's; DatabaseUnavailable if it gets lost meanwhile."""
        pool = self._open_async_pool()
        own = await pools.take_async(pool, self._timeout)
        try:
            with pools.lend(own):
                async with own:
                    yield own
        finally:
            if own.closed:
                await pools.distrust_async(pool, own)
            await pool.putconn(own)

    def open(self, pool: Pool | None = None) -> None:
        """Called by `App.open`; a `pool` of the caller's is left open at the end."""
        with self._opening:
            if pool is not None:
                self._pool = pool
                self._lent.append(pool)
            elif self._pool is None:
                self._pool = self._new_pool()
            self._opens += 1

    def close(self) -> None:
        """Closes the pool when all have closed that have opened."""
        with self._opening:
            self._opens = max(0, self._opens - 1)
            if self._opens:
                return
            pool, self._pool = self._pool, None
        if pool is not None and not self._was_lent(pool):
            pool.close()

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        """Called by `App.open_async`."""
        if pool is not None:
            self._async_pool = pool
            self._lent.append(pool)
        elif self._async_pool is None:
            await self._keep(
                await pools.open_async(
                    self._terms("pool", self._address()), self._session, self._sizes
                )
            )
        with self._opening:
            self._opens += 1

    async def _keep(self, pool: AsyncPool) -> None:
        if self._async_pool is None:
            self._async_pool = pool
        else:  # somebody else was faster
            await pool.close()

    async def close_async(self) -> None:
        """Closes both pools."""
        pool, self._async_pool = self._async_pool, None
        if pool is not None and not self._was_lent(pool):
            await pool.close()
        self.close()

    def _was_lent(self, pool: Pool | AsyncPool) -> bool:
        if pool not in self._lent:
            return False
        self._lent.remove(pool)
        return True

    def _sync_pool(self) -> Pool:
        """Opened on the first sync call: sync tasks of an async worker may defer too."""
        with self._opening:
            if not self._opens:
                raise AppNotOpen(NOT_OPEN)
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> Pool:
        return pools.open_sync(self._terms("pool", self._address()), self._session, self._sizes)

    def _open_async_pool(self) -> AsyncPool:
        if self._async_pool is None:
            raise AppNotOpen(NOT_OPEN)
        return self._async_pool


BaseConnector = PsycopgConnector  # there is one driver; the name is for annotations


class SyncPsycopgConnector(PsycopgConnector):
    """The same for a program that only defers, and never from async code: a script, a Django site.

        app = App(connector=SyncPsycopgConnector(dsn))
        with app.open():
            app.configure_task("billing.charge").defer(order=1)

    What is async raises SyncConnectorConfigurationError, a worker too.
    """

    async def connect_async(
        self, role: str, *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> AsyncSession:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        raise SyncConnectorConfigurationError(SYNC_ONLY)
