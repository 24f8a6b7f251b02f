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
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from inturn import drive, guests
from inturn.address import find_dsn
from inturn.errors import AppNotOpen, ConfigurationError, SyncConnectorConfigurationError
from inturn.operations import Operation
from inturn.sql import SCHEMA

T = TypeVar("T")
Pool = ConnectionPool[psycopg.Connection[Any]]
AsyncPool = AsyncConnectionPool[psycopg.AsyncConnection[Any]]
SYNC_ONLY = (
    "SyncPsycopgConnector does nothing async: no defer_async, no open_async, no worker. "
    "Give the App a PsycopgConnector, which is sync as well."
)
NOT_OPEN = "The app is not open. Defer inside `with app.open():` or `async with app.open_async():`."


class PsycopgConnector:
    """Where the queue lives: a DSN (default: INTURN_DSN, DATABASE_URL, or libpq's PG variables) and a schema.

    PsycopgConnector("postgresql://user@host/database", schema="jobs", max_size=20)

    `min_size` and `max_size` are of the pool that defers; further options, or `kwargs`, are libpq's: `connect_timeout=5`.

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
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if dsn and conninfo:
            raise ConfigurationError("Give the connector either a DSN or conninfo: they are two names for one thing.")
        self._dsn = dsn or conninfo
        self.schema = schema
        self._options = {**(kwargs or {}), **options}
        self._listen_dsn = listen_dsn or os.environ.get("INTURN_LISTEN_DSN")
        self._prepare_threshold = prepare_threshold
        self._session: dict[str, Any] = {"autocommit": True, "prepare_threshold": prepare_threshold}
        self._min_size = min_size
        self._max_size = max_size
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
            raise ConfigurationError(f"The connector has an option that libpq does not know: {error}".strip()) from None

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> PsycopgConnector:
        """Another one that differs in these."""
        return PsycopgConnector(
            dsn or self.dsn,
            schema=schema or self.schema,
            min_size=self._min_size,
            max_size=self._max_size,
            prepare_threshold=self._prepare_threshold,
            listen_dsn=None if dsn else self._listen_dsn,
        )

    @property
    def is_open_async(self) -> bool:
        """Whether `run_async` can be called."""
        return self._async_pool is not None

    def run(self, operation: Operation[T], connection: object = None) -> T:
        """Run one of `inturn.operations` on the caller's connection, or on one of the pool."""
        if connection is not None:
            return drive.run(operation, guests.guest(connection), self.schema)
        pool = self._sync_pool()
        with drive.translated():
            own = (
                pool.getconn()
            )  # not pool.connection(): that commits, and on our own connections nothing is left to commit
            try:
                done = drive.run(operation, own, self.schema)
                if not own.autocommit:
                    own.commit()
                return done
            finally:
                pool.putconn(own)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        """Like `run`, in an event loop."""
        if connection is not None:
            return await drive.run_async(operation, await guests.guest_async(connection), self.schema)
        if self._async_pool is None:
            raise AppNotOpen(NOT_OPEN)
        pool = self._async_pool
        with drive.translated():
            own = await pool.getconn()
            try:
                done = await drive.run_async(operation, own, self.schema)
                if not own.autocommit:
                    await own.commit()
                return done
            finally:
                await pool.putconn(own)

    def connect(self, role: str = "command", *, to_listen: bool = False) -> psycopg.Connection[Any]:
        """A connection of its own, outside the pools: committing each statement, called `inturn role` on the server."""
        with drive.translated(connecting=True):
            return psycopg.connect(self._address(to_listen), application_name=f"inturn {role}", **self._session)

    async def connect_async(self, role: str, *, to_listen: bool = False) -> psycopg.AsyncConnection[Any]:
        """A connection of its own, outside the pools: committing each statement, called `inturn role` on the server."""
        address, name = self._address(to_listen), f"inturn {role}"
        with drive.translated(connecting=True):
            return await psycopg.AsyncConnection.connect(address, application_name=name, **self._session)

    def _address(self, to_listen: bool) -> str:
        return find_dsn(self._listen_dsn) if to_listen and self._listen_dsn else self.dsn

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool, for a transaction of the caller's."""
        with self._sync_pool().connection() as own:
            yield own

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection of the pool, for a transaction of the caller's."""
        if self._async_pool is None:
            raise AppNotOpen(NOT_OPEN)
        async with self._async_pool.connection() as own:
            yield own

    def open(self, pool: Pool | None = None) -> None:
        """Called by `App.open`; a `pool` of the caller's is left open at the end."""
        self._opens += 1
        if pool is not None:
            self._pool = pool
            self._lent.append(pool)
        self._sync_pool()

    def close(self) -> None:
        """Closes the pool when all have closed that have opened."""
        self._opens = max(0, self._opens - 1)
        if not self._opens:
            pool, self._pool = self._pool, None
            if pool is not None and not self._was_lent(pool):
                pool.close()

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        """Called by `App.open_async`."""
        self._opens += 1
        if pool is not None:
            self._async_pool = pool
            self._lent.append(pool)
        elif self._async_pool is None:
            pool = AsyncConnectionPool(
                self.dsn, open=False, kwargs=self._session, min_size=self._min_size, max_size=self._max_size
            )
            with drive.translated():
                await pool.open()
            self._async_pool = pool

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
                pool: Pool = ConnectionPool(
                    self.dsn, open=False, kwargs=self._session, min_size=self._min_size, max_size=self._max_size
                )
                with drive.translated():
                    pool.open()
                self._pool = pool
            return self._pool


BaseConnector = PsycopgConnector  # there is one driver; the name is for annotations


class SyncPsycopgConnector(PsycopgConnector):
    """The same for a program that only defers, and never from async code: a script, a Django site.

        app = App(connector=SyncPsycopgConnector(dsn))
        with app.open():
            app.configure_task("billing.charge").defer(order=1)

    What is async raises SyncConnectorConfigurationError, a worker too.
    """

    async def connect_async(self, role: str, *, to_listen: bool = False) -> psycopg.AsyncConnection[Any]:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        raise SyncConnectorConfigurationError(SYNC_ONLY)
